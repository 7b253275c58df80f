//! Errors by which the server says that it did not carry out a statement, and connections that end.

use std::time::{Duration, Instant};

use lock_conformance::{assert_in_time, refusal};
use lock_core::driver::{Level, Renewal};
use lock_core::{Effect, ErrorKind};
use sqlx::{AssertSqlSafe, Connection};

use crate::On;
use crate::server::{PATIENCE, Server, TTL, claim, execute, free_row, granted, is_busy, run, until};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

// Proves: statement-undone
pub(crate) fn a_deadlock_is_repeated_and_no_contention(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let client = server.client().await;
        free_row(&client, "a").await;
        server.execute("CREATE TABLE weight (n INT) ENGINE=InnoDB").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        // The server undoes the transaction that has changed less.
        let many: Vec<String> = (0..100).map(|n| format!("({n})")).collect();
        execute(&mut raw, &format!("INSERT INTO weight VALUES {}", many.join(", "))).await;
        execute(&mut raw, "SELECT * FROM onelock_locks LOCK IN SHARE MODE").await;
        let mut attempt = claim(&client, "a", PATIENCE);
        let attempt = tokio::spawn(async move { granted(&mut attempt).await });
        server.running("UPDATE", 1).await;
        // The attempt waits until this transaction no longer shares the lock, and this update would wait behind the
        // attempt.
        let began = Instant::now();
        execute(&mut raw, "UPDATE onelock_locks SET label = ''").await;
        assert_in_time!(began.elapsed() < Duration::from_millis(900), "there was no deadlock");
        execute(&mut raw, "COMMIT").await;
        attempt.await.expect("it was granted in the end");
    });
}

// Proves: statement-undone
pub(crate) fn a_timed_out_lock_wait_is_retried_without_contention(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        free_row(&client, "a").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
        let mut attempt = claim(&client, "a", PATIENCE * 2);
        let attempt = tokio::spawn(async move { granted(&mut attempt).await });
        let short = claim(&client, "a", Duration::from_millis(1500)).attempt().await.unwrap_err();
        assert!(matches!(short.kind(), ErrorKind::Unavailable { .. }), "{short:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!attempt.is_finished(), "it still waits");
        execute(&mut raw, "ROLLBACK").await;
        attempt.await.expect("it was granted in the end");
    });
}

/// Creates a user with fewer rights than the server's administrator, whom `read_only` doesn't bind. Returns the user's
/// URL.
async fn user(server: &Server) -> String {
    let name = format!("u_{}", server.database());
    server.execute(&format!("CREATE USER {name}")).await;
    server.execute(&format!("GRANT ALL ON {}.* TO {name}", server.database())).await;
    server.url_of(&name, "")
}

// Proves: check-server, another-server
pub(crate) fn clients_leave_a_read_only_server_for_its_successor(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let client = lock_sql::mysql::connect(&user(&server).await).await.unwrap();
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let connections = server.status("Connections").await;
        server.execute("SET GLOBAL read_only = 1").await;
        let error = holder.renew(TTL).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains("read-only"), "{error}");
        // The next call opens a connection, because another server may be behind the address by now.
        assert_eq!(claim(&client, "b", PATIENCE).attempt().await.unwrap_err().kind(), NOT_DONE);
        assert!(client.info().data_loss.contains("read_only"), "{}", client.info().data_loss);
        let found = refusal::is_told(&client, "read-only").await;
        let level = |subject| found.iter().find(|f| f.subject == subject).unwrap().level;
        assert_eq!((level("replication"), level("rights")), (Level::Bad, Level::Bad), "{found:?}");
        server.execute("SET GLOBAL read_only = 0").await;
        assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
        assert!(server.status("Connections").await > connections + 2);
    });
}

// Proves: B21, flushed-or-killed
pub(crate) fn a_killed_connection_costs_one_call_at_most(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let mut holder = claim(&client, "a", PATIENCE);
        let mut other = claim(&client, "a", PATIENCE);
        let first = granted(&mut holder).await;
        for call in ["attempt", "renew", "look", "release"] {
            server.kill_connections().await;
            let broken = match call {
                "attempt" => holder.attempt().await.map(drop),
                "renew" => holder.renew(TTL).await.map(drop),
                "look" => other.attempt().await.map(drop),
                _ => holder.release().await.map(drop),
            };
            if let Err(error) = broken {
                assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{call}: {error:?}");
            }
            match call {
                "release" => _ = holder.release().await.unwrap(),
                "look" => assert!(is_busy(&mut other).await),
                "renew" => assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. })),
                _ => assert_eq!(granted(&mut holder).await.token, first.token),
            }
        }
        granted(&mut other).await;
    });
}

// Proves: flushed-or-killed
pub(crate) fn a_killed_statement_has_unknown_effect(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        free_row(&client, "a").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
        let mut attempt = claim(&client, "a", PATIENCE * 4);
        let attempt = tokio::spawn(async move { attempt.attempt().await.unwrap_err() });
        let waiting = format!(
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = '{}' AND info LIKE 'UPDATE%'",
            server.database()
        );
        let mut admin = server.raw().await;
        // The server undoes the statement after it has waited for a second, and the client repeats it. A kill may come
        // between two of them.
        until("it is killed while it waits", async || {
            let ids = sqlx::query_scalar(AssertSqlSafe(waiting.clone()));
            let ids: Vec<i64> = ids.fetch_all(&mut admin).await.unwrap();
            for id in ids {
                execute(&mut admin, &format!("KILL QUERY {id}")).await;
            }
            attempt.is_finished()
        })
        .await;
        let error = attempt.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        execute(&mut raw, "ROLLBACK").await;
        // The killed statement has taken nothing that lasts.
        granted(&mut claim(&client, "a", PATIENCE)).await;
    });
}

/// Rows that others have locked, more than a client has connections, and attempts for all of them.
pub(crate) fn rows_that_are_locked_keep_no_connection(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let mut holder = claim(&client, "held", PATIENCE);
        granted(&mut holder).await;
        free_row(&client, "free").await;
        let mut raw = server.raw().await;
        let names: Vec<String> = (0..12).map(|n| format!("locked-{n}")).collect();
        for name in &names {
            free_row(&client, name).await;
        }
        // It locks no gap between rows.
        execute(&mut raw, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
        execute(&mut raw, "BEGIN").await;
        for name in &names {
            execute(&mut raw, &format!("SELECT 1 FROM onelock_locks WHERE name = '{name}' FOR UPDATE")).await;
        }
        let mut attempts = tokio::task::JoinSet::new();
        for name in &names {
            let mut attempt = claim(&client, name, PATIENCE * 2);
            attempts.spawn(async move { granted(&mut attempt).await });
        }
        server.running("UPDATE", 3).await;
        for _ in 0..5 {
            let began = Instant::now();
            assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
            free_row(&client, "free").await;
            // A statement that waits for a row does so for a second.
            assert_in_time!(began.elapsed() < Duration::from_millis(800), "they waited for others' rows");
        }
        execute(&mut raw, "COMMIT").await;
        attempts.join_all().await;
    });
}

pub(crate) fn a_server_without_room_for_a_client_says_so(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let url = user(&server).await;
        server.execute("SET GLOBAL max_connections = 10").await;
        let mut others = Vec::new();
        while let Ok(other) = sqlx::MySqlConnection::connect(&url).await {
            others.push(other);
        }
        let error = lock_sql::mysql::connect(&url).await.expect_err("there is no room");
        assert_eq!(error.kind(), NOT_DONE, "{error:?}");
        assert!(error.is_refusal() && error.message().contains("no more connections"), "{error}");
    });
}
