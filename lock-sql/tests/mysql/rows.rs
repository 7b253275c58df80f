//! The rows of the table, and how long they stay.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::Options;
use lock_sql::mysql;

use crate::On;
use crate::server::{PATIENCE, Server, claim, granted, run};
use lock_conformance::timing::released;

// Proves: prefix
pub(crate) fn a_lock_is_one_row_per_prefix_and_name(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let url = server.url("?prefix=app%3A");
        let client = mysql::connect_with(&url, Options::default().label("mé 'x\\")).await.unwrap();
        let guard = client.lock("a").build().unwrap().acquire().await.unwrap();
        let held = "SELECT COUNT(*) FROM onelock_locks
            WHERE name = 'app:a' AND label = 'mé ''x\\\\' AND LENGTH(owner) = 16 AND revoked IS NULL";
        assert_eq!(server.number(held).await, 1);
        let token = server.number("SELECT token FROM onelock_locks").await;
        assert_eq!(guard.token().get(), token.unsigned_abs());
        released(guard).await;
        let left = "SELECT token FROM onelock_locks WHERE owner = '' AND label = '' AND expires = 0";
        assert_eq!(server.number(left).await, token);
    });
}

pub(crate) fn names_are_bytes(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        for name in ["a", "A", "a ", "a\0", "a\0b", "ä", "a\u{308}", "1", "01", "x'61'", "'", "\\", "%"] {
            granted(&mut claim(&client, name, PATIENCE)).await;
        }
        assert_eq!(server.number("SELECT COUNT(*) FROM onelock_locks").await, 13);
        assert_eq!(server.number("SELECT COUNT(*) FROM onelock_locks WHERE name = x'610062'").await, 1);
        let longest = "é".repeat(256);
        granted(&mut claim(&client, &longest, PATIENCE)).await;
        let of_length = "SELECT COUNT(*) FROM onelock_locks WHERE LENGTH(name) = 512";
        assert_eq!(server.number(of_length).await, 1);
    });
}

pub(crate) fn only_rows_unused_for_a_day_are_deleted(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let first = client.lock("first").build().unwrap();
        released(first.acquire().await.unwrap()).await;
        let hour = "3600 * 1000000";
        let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        let old: Vec<String> =
            (0..500).map(|n| format!("('old{n}', '', {now} - 25 * {hour}, 0, 0, '', NULL)")).collect();
        server.execute(&format!("INSERT INTO onelock_locks VALUES {}", old.join(", "))).await;
        for (name, token, expires) in [("held", "1000", "9e18"), ("young", "{now} - 23 * {hour}", "0")] {
            let token = token.replace("{now}", now).replace("{hour}", hour);
            server
                .execute(&format!(
                    "INSERT INTO onelock_locks VALUES ('{name}', '', {token}, {expires}, 0, '', NULL)"
                ))
                .await;
        }
        let old = "SELECT COUNT(*) FROM onelock_locks WHERE name LIKE 'old%'";
        let began = Instant::now();
        while server.number(old).await > 0 {
            let left = server.number(old).await;
            assert_in_time!(began.elapsed() < Duration::from_secs(40), "{left} are left");
            for _ in 0..100 {
                released(first.try_acquire().await.unwrap().unwrap()).await;
            }
        }
        let left = "SELECT COUNT(*) FROM onelock_locks WHERE name IN ('first', 'held', 'young')";
        assert_eq!(server.number(left).await, 3);
    });
}
