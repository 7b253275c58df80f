//! What can't be a file of locks is told as what it is, with what to do.

use std::fs;

use lock_core::{Error, ErrorKind, Options};
use lock_sql::sqlite::{self, Sqlite};

use super::{File, claim, run};

async fn refused(url: &str) -> Error {
    sqlite::connect(url).await.expect_err(url)
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
        let text = "not a database, but a file that somebody needs\n".repeat(100);
        fs::write(file.path(), &text).unwrap();
        let error = refused(&file.url()).await;
        assert!(
            error.kind() == ErrorKind::Rejected && error.message().contains("no SQLite database"),
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

pub(crate) fn a_table_of_another_version_or_owner_is_left_alone() {
    run(async {
        for (sql, said) in [
            ("CREATE TABLE onelock_locks (/* onelock schema 2 */ name BLOB)", "newer"),
            ("CREATE TABLE onelock_locks (/* onelock schema 0 */ name BLOB)", "older"),
            ("CREATE TABLE onelock_locks (id INTEGER, name TEXT)", "none of ours"),
            ("CREATE VIEW onelock_locks AS SELECT 1 AS name", "none of ours"),
        ] {
            let file = File::new();
            file.execute(sql).await;
            let error = refused(&file.url()).await;
            assert!(error.kind() == ErrorKind::Rejected && error.message().contains(said), "{sql}: {error}");
            assert_eq!(file.number("SELECT count(*) FROM sqlite_schema").await, 1);
        }
    });
}

pub(crate) fn a_file_that_may_not_be_written_is_said_to_be_read_only() {
    run(async {
        let file = File::new();
        drop(file.client().await);
        let client = Sqlite::from(file.options().read_only(true)).open(Options::default()).await;
        let error = match client {
            Ok(client) => claim(&client, "a", std::time::Duration::from_secs(1)).attempt().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.kind() == ErrorKind::Rejected && error.message().contains("read-only"), "{error}");
    });
}

/// RULE j2, on a file system that is there on every Linux, and none of a disk.
#[cfg(target_os = "linux")]
pub(crate) fn a_file_system_that_is_not_known_to_be_local_is_refused_unless_it_is_trusted() {
    run(async {
        let error = refused("sqlite:///proc/locks.db").await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("fs=trust") && error.message().contains("0x9fa0"), "{error}");
        let error = refused("sqlite:///proc/locks.db?fs=trust").await;
        assert_ne!(error.kind(), ErrorKind::Unsupported, "{error}");
    });
}

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
        super::granted(&mut claim(&client, "a", std::time::Duration::from_secs(1))).await;
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks").await, 1);
    });
}
