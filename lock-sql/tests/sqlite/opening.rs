//! Files that can't be used for locks: the error says what they are, and what to do.

use std::fs;
use std::pin::pin;
use std::time::Duration;

use lock_core::driver::{Attempt, Level};
use lock_core::{Error, ErrorKind, Options};
use lock_sql::sqlite::{self, Sqlite};
use sqlx::Executor as _;

use super::{File, claim, run};

const PATIENCE: Duration = Duration::from_secs(2);

async fn refused(url: &str) -> Error {
    sqlite::connect(url).await.expect_err(url)
}

pub(crate) fn opening_opens_the_file_unless_it_is_lazy() {
    run(async {
        let file = File::new();
        let client = sqlite::connect(&format!("{}?lazy=true", file.url())).await.unwrap();
        assert_eq!(fs::read_dir(file.folder.path()).unwrap().count(), 0, "nothing is there yet");
        let lock = client.lock("a").build().unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
        assert!(file.path().exists());
        // What opening would have refused, the first call refuses.
        let file = File::new();
        file.execute("CREATE TABLE onelock_locks (id INTEGER, name TEXT)").await;
        let client = sqlite::connect(&format!("{}?lazy=true", file.url())).await.unwrap();
        let lock = client.lock("a").build().unwrap();
        for error in [
            refused(&file.url()).await,
            refused(&format!("{}?lazy=false", file.url())).await,
            lock.try_acquire().await.map(drop).unwrap_err(),
            lock.inspect().await.map(drop).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.message().contains("not a table of locks"), "{error}");
        }
        // What passes by itself is waited for, and nothing else is.
        let error = refused(&format!("{}?connect_wait=1h", file.url())).await;
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        let missing = file.folder.path().join("missing/locks.db");
        let error = refused(&format!("sqlite://{}?lazy=true", missing.display())).await;
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    });
}

pub(crate) fn opening_waits_for_a_file_locked_elsewhere() {
    run(async {
        let file = File::new();
        let mut other = file.admin().await;
        other.execute("BEGIN EXCLUSIVE").await.unwrap();
        let url = format!("{}?patience=100ms", file.url());
        let error = refused(&url).await;
        assert!(error.is_transient(), "{error}");
        let url = format!("{url}&connect_wait=120s");
        let mut opening = pin!(sqlite::connect(&url));
        let early = tokio::time::timeout(Duration::from_secs(1), opening.as_mut()).await;
        assert!(early.is_err(), "it did not wait for the other process: {early:?}");
        other.execute("COMMIT").await.unwrap();
        let lock = opening.await.unwrap().lock("a").build().unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

pub(crate) fn the_file_is_created_and_its_folder_is_not() {
    run(async {
        let file = File::new();
        sqlite::connect(&file.url()).await.unwrap();
        assert!(file.path().exists());
        let folder = file.folder.path().join("missing");
        let error = refused(&format!("sqlite://{}/locks.db", folder.display())).await;
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.message().contains("create it first"), "{error}");
        assert!(!folder.exists());
        let error = refused(&format!("sqlite://{}", file.folder.path().display())).await;
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("is a folder"), "{error}");
    });
}

pub(crate) fn what_is_no_database_is_left_alone() {
    run(async {
        let file = File::new();
        let text = "not a database, but a file that is still needed\n".repeat(100);
        fs::write(file.path(), &text).unwrap();
        let error = refused(&file.url()).await;
        assert!(
            error.kind() == ErrorKind::Rejected && error.message().contains("not a SQLite database"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
    });
}

pub(crate) fn a_damaged_file_is_said_to_be_damaged() {
    run(async {
        let file = File::new();
        drop(file.client().await);
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let mut bytes = fs::read(file.path()).unwrap();
        bytes[100..].fill(0xA5);
        fs::write(file.path(), &bytes).unwrap();
        let error = refused(&file.url()).await;
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("damaged"), "{error}");
    });
}

// Proves: error-kinds
pub(crate) fn a_table_of_another_version_or_owner_is_untouched() {
    run(async {
        for (sql, said) in [
            ("CREATE TABLE onelock_locks (/* onelock schema 2 */ name BLOB)", "newer"),
            ("CREATE TABLE onelock_locks (/* onelock schema 0 */ name BLOB)", "older"),
            ("CREATE TABLE onelock_locks (id INTEGER, name TEXT)", "not a table of locks"),
            ("CREATE VIEW onelock_locks AS SELECT 1 AS name", "not a table of locks"),
        ] {
            let file = File::new();
            file.execute(sql).await;
            let error = refused(&file.url()).await;
            assert!(error.kind() == ErrorKind::Rejected && error.message().contains(said), "{sql}: {error}");
            assert_eq!(file.number("SELECT count(*) FROM sqlite_schema").await, 1);
        }
    });
}

// Proves: rights-revoked
pub(crate) fn an_unwritable_file_is_reported_as_read_only() {
    run(async {
        let file = File::new();
        drop(file.client().await);
        let client = Sqlite::from(file.options().read_only(true)).open(Options::default()).await;
        let error = match client {
            Ok(client) => claim(&client, "a", Duration::from_secs(1)).attempt().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("read-only"), "{error}");
    });
}

/// RULE j2, on a file system that every Linux has, and that is on no disk.
#[cfg(target_os = "linux")]
pub(crate) fn a_possibly_remote_file_system_needs_trust() {
    run(async {
        let error = refused("sqlite:///proc/locks.db").await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("fs=trust") && error.message().contains("0x9fa0"), "{error}");
        let error = refused("sqlite:///proc/locks.db?fs=trust").await;
        assert_ne!(error.kind(), ErrorKind::Unsupported, "{error}");
    });
}

// Proves: error-kinds
pub(crate) fn a_database_in_memory_is_refused() {
    run(async {
        use sqlx::sqlite::SqliteConnectOptions;
        for options in [
            SqliteConnectOptions::new().in_memory(true),
            SqliteConnectOptions::new().filename(":memory:"),
            "sqlite::memory:".parse().unwrap(),
        ] {
            let error = Sqlite::from(options).open(Options::default()).await.unwrap_err();
            assert!(
                error.kind() == ErrorKind::Unsupported && error.message().contains("memory://"),
                "{error}"
            );
        }
        assert_eq!(refused("sqlite::memory:").await.kind(), ErrorKind::Unsupported);
    });
}

#[cfg(unix)]
pub(crate) fn a_link_leads_to_the_file_and_its_waiters() {
    run(async {
        let file = File::new();
        drop(file.client().await);
        let link = file.folder.path().join("link.db");
        std::os::unix::fs::symlink(file.path(), &link).unwrap();
        let client = sqlite::connect(&format!("sqlite://{}", link.display())).await.unwrap();
        let canonical = file.path().canonicalize().unwrap();
        assert_eq!(client.info().server, canonical.display().to_string());
        super::granted(&mut claim(&client, "a", Duration::from_secs(1))).await;
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks").await, 1);
    });
}

/// SQLite would create the file that the link leads to, but more often it is on a disk that is not mounted yet.
#[cfg(unix)]
pub(crate) fn a_link_that_leads_nowhere_is_refused() {
    run(async {
        let file = File::new();
        let target = file.folder.path().join("not-there.db");
        std::os::unix::fs::symlink(&target, file.path()).unwrap();
        let error = refused(&file.url()).await;
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("leads to"), "{error}");
        assert!(!target.exists());
    });
}

/// SQLite keeps its log beside the name by which the file was opened, so clients with another name would not see it.
#[cfg(unix)]
pub(crate) fn a_file_by_two_names_is_refused() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut holder = claim(&client, "a", PATIENCE);
        super::granted(&mut holder).await;
        let second = file.folder.path().join("second.db");
        fs::hard_link(file.path(), &second).unwrap();
        for path in [&second, &file.path()] {
            let error = refused(&format!("sqlite://{}", path.display())).await;
            assert!(error.kind() == ErrorKind::Rejected && error.message().contains("2 names"), "{error}");
        }
        // Clients that have the file open can't know which clients use the other name, either.
        let error = holder.renew(super::TTL).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        assert!(error.message().contains("2 names"), "{error}");
        fs::remove_file(second).unwrap();
        assert!(matches!(holder.renew(super::TTL).await.unwrap(), lock_core::driver::Renewal::Held { .. }));
    });
}

/// SQLite has opened the file that was there, but another file is at its path when the client checks that.
#[cfg(target_os = "linux")]
pub(crate) fn a_file_replaced_during_opening_takes_no_locks() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    run(async {
        let (file, newer) = (File::new(), File::new());
        for file in [&file, &newer] {
            drop(file.client().await);
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        }
        let (from, to, times) = (newer.path(), file.path(), Arc::new(AtomicUsize::new(0)));
        let compared = times.clone();
        // SQLite compares the names of tables with this collation, on an open connection.
        let options = file.options().collation("BINARY", move |a, b| {
            if compared.fetch_add(1, Ordering::SeqCst) == 0 {
                fs::rename(&from, &to).unwrap();
            }
            a.cmp(b)
        });
        let client = Sqlite::from(options).open(Options::default()).await.unwrap();
        assert!(times.load(Ordering::SeqCst) > 0, "the file was not replaced");
        let mut holder = claim(&client, "a", PATIENCE);
        super::granted(&mut holder).await;
        let removed = format!("{} (deleted)", file.path().canonicalize().unwrap().display());
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open: Vec<_> = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).collect();
        assert!(!open.iter().any(|path| path.as_os_str() == removed.as_str()), "{open:?}");
        assert!(matches!(holder.renew(super::TTL).await.unwrap(), lock_core::driver::Renewal::Held { .. }));
    });
}

/// Opening a FIFO waits for another process, and no signal would end the wait.
#[cfg(unix)]
pub(crate) fn a_path_without_a_file_is_refused_at_once() {
    let fifo = |path: &std::path::Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    run(async {
        let file = File::new();
        fifo(&file.path());
        let error = refused(&file.url()).await;
        assert!(
            error.kind() == ErrorKind::Rejected && error.message().contains("not a regular file"),
            "{error}"
        );
        // SQLite removes a log beside a file without tables.
        let file = File::new();
        fifo(&file.folder.path().join("locks.db-wal"));
        super::granted(&mut claim(&file.client().await, "a", PATIENCE)).await;
        // SQLite can't give a FIFO the length that an index must have.
        let file = File::new();
        fifo(&file.folder.path().join("locks.db-shm"));
        let error = refused(&file.url()).await;
        assert!(error.message().contains("I/O error"), "the client must neither wait nor open it: {error}");
        // The file of waiters only makes locks fairer.
        for is_link in [false, true] {
            let file = File::new();
            let waiters = file.folder.path().join("locks.db-waiters");
            let target = file.folder.path().join("target");
            match is_link {
                true => std::os::unix::fs::symlink(&target, waiters).unwrap(),
                false => fifo(&waiters),
            }
            let client = file.client().await;
            super::granted(&mut claim(&client, "a", PATIENCE)).await;
            let findings = client.check().await.unwrap();
            assert!(
                findings.iter().any(|f| f.subject == "waiters" && f.level == Level::Warning),
                "{findings:?}"
            );
            assert!(!target.exists());
        }
    });
}

/// Temporary tables precede the file's. With such a table, each client would have a table of its own, and could hold
/// every lock.
pub(crate) fn a_connections_temporary_table_is_not_the_files() {
    run(async {
        let file = File::new();
        let table = Sqlite::from(file.options()).schema().replace("CREATE TABLE", "CREATE TEMP TABLE");
        let statement = table.lines().skip(1).collect::<Vec<_>>().join(" ");
        let own = file.options().pragma("cache_size", format!("2000; {statement}"));
        let (first, second) = (
            Sqlite::from(own.clone()).open(Options::default()).await.unwrap(),
            Sqlite::from(own).open(Options::default()).await.unwrap(),
        );
        super::granted(&mut claim(&first, "a", PATIENCE)).await;
        assert!(matches!(claim(&second, "a", PATIENCE).attempt().await.unwrap(), Attempt::Busy(_)));
        assert_eq!(file.number("SELECT count(*) FROM main.onelock_locks").await, 1);
    });
}

/// A trigger could undo a grant after the statement that grants.
pub(crate) fn a_trigger_at_the_table_is_refused() {
    run(async {
        let file = File::new();
        let before = file.client().await;
        file.execute(
            "CREATE TRIGGER tidy AFTER INSERT ON Onelock_Locks BEGIN DELETE FROM onelock_locks; END",
        )
        .await;
        let error = refused(&file.url()).await;
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("trigger tidy"), "{error}");
        let findings = before.check().await.unwrap();
        assert!(findings.iter().any(|f| f.subject == "schema" && f.level == Level::Bad), "{findings:?}");
    });
}

/// sqlx shows the key together with its options.
pub(crate) fn the_key_of_an_encrypted_file_is_not_shown() {
    run(async {
        let file = File::new();
        let sqlite = Sqlite::from(file.options().pragma("key", "'hunter2'"));
        let shown = format!("{sqlite:?}");
        let client = sqlite.open(Options::default()).await.unwrap();
        let lock = client.lock("a").build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let shown = format!("{shown} {client:?} {:?} {lock:?} {guard:?}", client.driver());
        assert!(!shown.contains("hunter2"), "{shown}");
    });
}
