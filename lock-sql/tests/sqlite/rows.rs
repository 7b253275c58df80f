//! The rows of the table, and how long they stay.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::Options;
use lock_sql::sqlite::Sqlite;

use super::{File, claim, granted, run};
use lock_conformance::timing::released;

const PATIENCE: Duration = Duration::from_secs(2);

/// Returns a statement that inserts rows of locks that have been idle for a day, of this boot or another, or that are
/// held.
fn insert(names: &str, boot: &str, expires: &str) -> String {
    format!(
        "INSERT INTO onelock_locks (name, owner, token, boot, expires, label)
         SELECT CAST(name AS BLOB), x'', 1000, (SELECT {boot} FROM onelock_locks WHERE name = CAST('first' AS BLOB)), {expires}, ''
         FROM ({names})"
    )
}

pub(crate) fn only_rows_unused_for_a_day_are_deleted() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let first = client.lock("first").build().unwrap();
        released(first.acquire().await.unwrap()).await;
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 'old' || i AS name FROM n";
        file.execute(&insert(many, "boot", "-1")).await;
        file.execute(&insert("SELECT 'held' AS name", "boot", "9e18")).await;
        file.execute(&insert("SELECT 'before the reboot' AS name", "randomblob(16)", "9e18")).await;
        let old = "SELECT count(*) FROM onelock_locks WHERE token = 1000";
        assert_eq!(file.number(old).await, 502);
        let started = Instant::now();
        while file.number(old).await > 1 {
            let left = file.number(old).await;
            assert_in_time!(started.elapsed() < Duration::from_secs(30), "{left} are left");
            for _ in 0..100 {
                released(first.try_acquire().await.unwrap().unwrap()).await;
            }
        }
        let left =
            "SELECT count(*) FROM onelock_locks WHERE name IN (CAST('held' AS BLOB), CAST('first' AS BLOB))";
        assert_eq!(file.number(left).await, 2);
    });
}

// Proves: prefix
pub(crate) fn a_lock_is_one_row_per_prefix_and_name() {
    run(async {
        let file = File::new();
        let client = Sqlite::from_url(&format!("{}?prefix=app%3A", file.url()))
            .unwrap()
            .open(Options::default().label("me"))
            .await
            .unwrap();
        let guard = client.lock("a").build().unwrap().acquire().await.unwrap();
        let held = "SELECT count(*) FROM onelock_locks WHERE name = CAST('app:a' AS BLOB) AND label = 'me' AND length(owner) = 16";
        assert_eq!(file.number(held).await, 1);
        let token = file.number("SELECT token FROM onelock_locks").await;
        assert_eq!(guard.token().get(), token as u64);
        released(guard).await;
        assert_eq!(
            file.number("SELECT token FROM onelock_locks WHERE owner = x'' AND label = ''").await,
            token
        );
    });
}

/// The table may be in a database with other content, whose settings stay unchanged.
pub(crate) fn an_existing_database_keeps_its_own_settings() {
    run(async {
        let file = File::new();
        file.execute(
            "CREATE TABLE bills (total INTEGER); INSERT INTO bills VALUES (42); PRAGMA user_version = 7",
        )
        .await;
        let client = file.client().await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        assert_eq!(file.number("SELECT total FROM bills").await, 42);
        assert_eq!(file.number("PRAGMA user_version").await, 7);
        assert_eq!(file.number("PRAGMA application_id").await, 0);
    });
}

pub(crate) fn names_are_bytes() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        for name in ["a", "A", "a ", "a\0", "a\0b", "ä", "a\u{308}", "1", "01", "x'61'"] {
            granted(&mut claim(&client, name, PATIENCE)).await;
        }
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks WHERE typeof(name) = 'blob'").await, 10);
    });
}
