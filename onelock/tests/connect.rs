//! Opens clients by their URLs, with any set of features.

use lock_conformance::timing::still_held;
use onelock::{Error, ErrorKind};

const SCHEMES: [&str; 9] =
    ["memory", "redis", "redlock", "mysql", "postgres", "mongodb", "etcd", "zk", "sqlite"];

async fn refused(url: &str) -> Error {
    onelock::connect(url).await.expect_err(url)
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn memory_is_a_lock() -> onelock::Result<()> {
    for url in ["memory://a-lock", "memory+queue://a-lock", "memory+register://a-lock"] {
        let client = onelock::connect(url).await?;
        let lock = client.lock("a").wait(std::time::Duration::from_millis(50)).build()?;
        let guard = lock.acquire().await?;
        still_held(&guard);
        assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Timeout, "{url}");
        assert_eq!(guard.release().await, onelock::Ending::Released, "{url}");
        assert!(lock.try_acquire().await?.is_some(), "{url}");
    }
    Ok(())
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn options_reach_the_backend() -> onelock::Result<()> {
    let client =
        onelock::connect_with("memory://options", onelock::Options::default().label("the test")).await?;
    let lock = client.lock("a").build()?;
    let _guard = lock.acquire().await?;
    assert_eq!(lock.inspect().await?.holder.and_then(|holder| holder.label).as_deref(), Some("the test"));
    Ok(())
}

#[cfg(feature = "memory")]
#[test]
fn a_program_without_async_opens_by_url() -> onelock::Result<()> {
    let client = onelock::blocking_connect("memory://blocking")?;
    let lock = client.lock("a").build()?;
    let guard = lock.blocking_acquire()?;
    assert!(lock.blocking_try_acquire()?.is_none());
    assert_eq!(guard.blocking_release(), onelock::Ending::Released);
    assert_eq!(onelock::blocking_connect("memory://?x=1").unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[cfg(all(feature = "memory", feature = "sqlite"))]
#[test]
fn a_servers_setup_is_read_from_its_url_alone() -> onelock::Result<()> {
    assert_eq!(onelock::schema("memory://")?, "");
    let schema = onelock::schema("sqlite:///no/such/folder/locks.db")?;
    assert!(schema.contains("CREATE TABLE") && schema.contains("onelock_locks"), "{schema}");
    assert_eq!(onelock::schema("sqlite:a?x=1").unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_file_locks_for_all_its_openers() -> onelock::Result<()> {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let url = format!("sqlite://{}", folder.path().join("locks.db").display());
    let (client, other) = (onelock::connect(&url).await?, onelock::connect(&url).await?);
    let guard = client.lock("a").build()?.acquire().await?;
    assert!(other.lock("a").build()?.try_acquire().await?.is_none());
    assert_eq!(guard.release().await, onelock::Ending::Released);
    assert!(other.lock("a").build()?.try_acquire().await?.is_some());
    Ok(())
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    // A port that is reserved for a service which is never used, and a socket that does not exist.
    for url in [
        "redis://127.0.0.1:1",
        "valkey://127.0.0.1:1",
        "redis://127.0.0.1:1,127.0.0.1:2",
        "redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster",
        "redis+unix:///no/such/socket",
        "unix:///no/such/socket",
    ] {
        assert!(matches!(refused(url).await.kind(), ErrorKind::Unavailable { .. }), "{url}");
    }
}

#[tokio::test]
async fn a_missing_backend_names_its_feature() {
    for (feature, built_in) in [
        ("memory", cfg!(feature = "memory")),
        ("redis", cfg!(feature = "redis")),
        ("mysql", cfg!(feature = "mysql")),
        ("postgres", cfg!(feature = "postgres")),
        ("sqlite", cfg!(feature = "sqlite")),
    ] {
        if built_in {
            continue;
        }
        let scheme = format!("{feature}://host");
        for error in [refused(&scheme).await, onelock::schema(&scheme).expect_err(&scheme)] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(&format!("feature \"{feature}\"")), "{error}");
        }
    }
}

#[cfg(all(feature = "redis", not(feature = "tls")))]
#[tokio::test]
async fn encryption_that_is_not_built_in_names_its_feature() {
    let error = refused("rediss://127.0.0.1:1").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("tls"), "{error}");
}

#[tokio::test]
async fn an_unknown_scheme_is_told_what_there_is() {
    for url in ["gopher://host", "localhost:6379", "localhost", "", "://host"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        for scheme in SCHEMES {
            assert!(error.message().contains(&format!("{scheme}://")), "{url}: {error}");
        }
    }
}

#[tokio::test]
async fn an_unknown_scheme_lists_schemes_and_features() {
    let error = refused("gopher://host").await;
    let (there_are, missing) =
        error.message().split_once("not built into this program: ").unwrap_or((error.message(), ""));
    for (scheme, feature, built_in) in [
        ("memory://", "memory", cfg!(feature = "memory")),
        ("redis://", "redis", cfg!(feature = "redis")),
        ("mysql://", "mysql", cfg!(feature = "mysql")),
        ("postgres://", "postgres", cfg!(feature = "postgres")),
        ("sqlite://", "sqlite", cfg!(feature = "sqlite")),
        ("zk://", "zk", cfg!(feature = "zk")),
    ] {
        assert_eq!(there_are.contains(scheme), built_in, "{error}");
        assert_eq!(missing.contains(scheme), !built_in, "{error}");
        assert_eq!(missing.contains(&format!("(feature \"{feature}\")")), !built_in, "{error}");
    }
}

#[tokio::test]
async fn a_misspelt_scheme_is_told_the_right_one() {
    for (url, meant) in [
        ("postgre://u:hunter2@h/d", "postgres://"),
        ("reddis://u:hunter2@h", "redis://"),
        ("redis+sentinal://h", "redis+sentinel://"),
        ("pgsql://h/d", "postgres://"),
        ("mongo://h/d", "mongodb://"),
        ("zookeeper://h", "zk://"),
        ("sqlite3:///f", "sqlite://"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.message().ends_with(&format!("did you mean {meant}?")), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn what_stands_before_a_url_is_named() {
    for (url, before) in [
        ("\"redis://u:hunter2@h\"", "a quotation mark"),
        ("'postgres://u:hunter2@h/d'", "a quotation mark"),
        ("\u{feff}redis://h", "a byte order mark"),
        (" redis://h", "a blank"),
        ("LOCK_URL=redis://u:hunter2@h", "a name and `=`"),
        ("LOCK_URL=\"redis://h\"", "a name and `=`"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.message().contains(before), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn a_scheme_is_read_without_regard_to_case() {
    for (url, built_in) in [
        ("Memory://a?colour=red", cfg!(feature = "memory")),
        ("REDIS://h?colour=red", cfg!(feature = "redis")),
        ("RedLock://a,b,c?colour=red", cfg!(feature = "redlock")),
        ("ETCD://h?colour=red", cfg!(feature = "etcd")),
        ("ZK://h?colour=red", cfg!(feature = "zk")),
        ("MySQL://h/d?colour=red", cfg!(feature = "mysql")),
        ("PostgreSQL://h/d?colour=red", cfg!(feature = "postgres")),
        ("SQLite:a?colour=red", cfg!(feature = "sqlite")),
    ] {
        let error = refused(url).await;
        let expected = if built_in { ErrorKind::Invalid } else { ErrorKind::Unsupported };
        assert_eq!(error.kind(), expected, "{url}: {error}");
        assert_eq!(error.message().contains("colour"), built_in, "{url}: {error}");
    }
}

#[cfg(feature = "mongodb")]
#[tokio::test]
async fn mongodbs_scheme_is_read_without_regard_to_case() {
    let error = refused("MongoDB://h/d?w=0").await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("w=majority"), "{error}");
}

#[tokio::test]
async fn an_unknown_parameter_is_refused() {
    let built_in = [
        ("memory://", cfg!(feature = "memory")),
        ("redis://127.0.0.1:1", cfg!(feature = "redis")),
        ("sqlite:locks.db", cfg!(feature = "sqlite")),
        ("sqlite:///locks.db", cfg!(feature = "sqlite")),
    ];
    for (url, _) in built_in.into_iter().filter(|(_, built_in)| *built_in) {
        let error = refused(&format!("{url}?colour=red")).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        assert!(error.message().contains("colour"), "{url}: {error}");
    }
}
