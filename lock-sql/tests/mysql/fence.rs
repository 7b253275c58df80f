//! Tests of the fence, in the user's own transaction.

use std::time::Duration;

use lock_core::FencingToken;
use lock_sql::FenceError;
use lock_sql::mysql::Fence;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::On;
use crate::server::{Server, execute, number, run};

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).unwrap()
}

/// Writes under the fence. Returns whether the token was accepted.
async fn write(connection: &mut MySqlConnection, with: u64, total: u64) -> bool {
    let mut transaction = connection.begin().await.unwrap();
    match Fence::new("bills").accept(&mut transaction, token(with)).await {
        Ok(()) => {
            execute(&mut transaction, &format!("UPDATE bills SET total = {total}")).await;
            transaction.commit().await.unwrap();
            true
        }
        Err(FenceError::Stale(stale)) => {
            assert_eq!(stale.offered, token(with));
            transaction.rollback().await.unwrap();
            false
        }
        Err(e) => panic!("{e}"),
    }
}

async fn prepared(on: On) -> (Server, MySqlConnection) {
    let server = Server::shared(on).await;
    let mut connection = server.raw().await;
    execute(&mut connection, "CREATE TABLE bills (total BIGINT) ENGINE=InnoDB").await;
    execute(&mut connection, "INSERT INTO bills VALUES (0)").await;
    Fence::create_table(&mut connection).await.unwrap();
    Fence::create_table(&mut connection).await.unwrap();
    (server, connection)
}

pub(crate) fn a_stale_token_writes_nothing(on: On) {
    run(async {
        let (_server, mut connection) = prepared(on).await;
        for (with, accepted) in
            [(33, true), (34, true), (33, false), (34, true), (u64::MAX >> 1, true), (35, false)]
        {
            assert_eq!(write(&mut connection, with, with).await, accepted, "{with}");
        }
        assert_eq!(number(&mut connection, "SELECT total FROM bills").await, i64::MAX);
        // Another resource has its own highest token. A token whose transaction is rolled back was not accepted.
        let mut transaction = connection.begin().await.unwrap();
        Fence::new("other").accept(&mut transaction, token(9)).await.unwrap();
        transaction.rollback().await.unwrap();
        Fence::new("other").accept(&mut connection, token(8)).await.unwrap();
        let long = Fence::new("x".repeat(641)).accept(&mut connection, token(8)).await;
        assert!(matches!(long, Err(FenceError::Sqlx(_))), "{long:?}");
    });
}

/// Other drivers have no `accept`. They bind the values, and read the highest token from the answer.
pub(crate) fn the_statement_is_every_drivers(on: On) {
    run(async {
        let (_server, mut connection) = prepared(on).await;
        let fence = Fence::new("bills");
        let mut transaction = connection.begin().await.unwrap();
        for (offered, highest) in [(33, 33), (33, 33), (35, 35), (34, 35)] {
            let accept = sqlx::query(AssertSqlSafe(fence.statement()));
            let accept = accept.bind(b"bills".as_slice()).bind(offered).bind(offered);
            let done = accept.execute(&mut *transaction).await.unwrap();
            assert_eq!(done.last_insert_id(), highest, "{offered}");
            let told: u64 =
                sqlx::query_scalar("SELECT LAST_INSERT_ID()").fetch_one(&mut *transaction).await.unwrap();
            assert_eq!(told, highest, "{offered}");
        }
        transaction.commit().await.unwrap();
        assert!(!write(&mut connection, 34, 34).await);
        assert!(write(&mut connection, 35, 35).await);
    });
}

/// Sessions that write may be in different databases, but the fence must be the same.
pub(crate) fn a_fence_may_have_a_table_in_any_database(on: On) {
    run(async {
        let (server, mut connection) = prepared(on).await;
        let fence = Fence::new("bills").table(&format!("{}.onelock_fences", server.database())).unwrap();
        fence.accept(&mut connection, token(9)).await.unwrap();
        let elsewhere = Server::shared(on).await;
        let mut connection = elsewhere.raw().await;
        let stale = fence.accept(&mut connection, token(8)).await;
        assert!(matches!(stale, Err(FenceError::Stale(_))), "{stale:?}");
        assert!(Fence::new("bills").table("a b").is_err());
    });
}

pub(crate) fn transactions_of_two_holders_come_one_after_the_other(on: On) {
    run(async {
        let (server, mut old) = prepared(on).await;
        assert!(write(&mut old, 1, 1).await);
        let mut new = server.raw().await;
        let mut transaction = new.begin().await.unwrap();
        Fence::new("bills").accept(&mut transaction, token(3)).await.unwrap();
        // An earlier holder's transaction waits until this one has ended, and is refused then.
        let late = tokio::spawn(async move { write(&mut old, 2, 2).await });
        server.running("INSERT", 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!late.is_finished());
        execute(&mut transaction, "UPDATE bills SET total = 3").await;
        transaction.commit().await.unwrap();
        assert!(!late.await.unwrap());
        assert_eq!(server.number("SELECT total FROM bills").await, 3);
    });
}
