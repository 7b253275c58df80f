//! Tests of the fence, in the user's own transaction.

use std::time::Duration;

use lock_core::FencingToken;
use lock_foreign_clients::{FencedWrite, SqlDriver};
use lock_sql::sqlite::{Fence, FenceError};
use sqlx::{Connection, Executor};

use super::{File, run};

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).unwrap()
}

async fn resource() -> File {
    let file = File::new();
    file.execute("PRAGMA journal_mode = WAL; CREATE TABLE reports (n INTEGER)").await;
    Fence::create_table(&mut file.admin().await).await.unwrap();
    file
}

/// Writes `n` with `offered` into the reports, in one transaction.
async fn write(file: &File, n: i64, offered: u64) -> Result<(), FenceError> {
    let mut connection = file.admin().await;
    let mut transaction = connection.begin().await?;
    sqlx::query("INSERT INTO reports VALUES (?)").bind(n).execute(&mut *transaction).await?;
    Fence::new("reports").accept(&mut transaction, token(offered)).await?;
    transaction.commit().await?;
    Ok(())
}

pub(crate) fn a_stale_token_writes_nothing() {
    run(async {
        let file = resource().await;
        write(&file, 1, 33).await.unwrap();
        write(&file, 2, 33).await.expect("a holder may write more than once");
        write(&file, 3, 34).await.unwrap();
        match write(&file, 4, 33).await {
            Err(FenceError::Stale(stale)) => {
                assert_eq!((stale.offered.get(), stale.highest.get()), (33, 34));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(file.number("SELECT sum(n) FROM reports").await, 6);
        Fence::new("other").accept(&mut file.admin().await, token(1)).await.expect("another resource");
    });
}

pub(crate) fn a_transaction_that_was_rolled_back_leaves_no_token() {
    run(async {
        let file = resource().await;
        let mut connection = file.admin().await;
        let mut transaction = connection.begin().await.unwrap();
        Fence::new("reports").accept(&mut transaction, token(99)).await.unwrap();
        transaction.rollback().await.unwrap();
        write(&file, 1, 33).await.unwrap();
    });
}

pub(crate) fn no_other_holder_writes_between_check_and_commit() {
    run(async {
        let file = resource().await;
        let mut connection = file.admin().await;
        let mut transaction = connection.begin().await.unwrap();
        Fence::new("reports").accept(&mut transaction, token(33)).await.unwrap();
        let mut other =
            sqlx::ConnectOptions::connect(&file.options().busy_timeout(Duration::from_millis(20)))
                .await
                .unwrap();
        let blocked = other.execute("INSERT INTO reports VALUES (9)").await;
        assert!(blocked.is_err(), "the check alone takes the right to write");
        transaction.commit().await.unwrap();
        write(&file, 1, 34).await.unwrap();
    });
}

/// diesel's transactions and ours, on one file. Returns why it can't be played, if it can't.
pub(crate) fn the_statement_is_every_drivers() -> Result<(), String> {
    SqlDriver::find().map_err(lock_test_servers::Absence::reason)?;
    run(async {
        let file = resource().await;
        let fence = Fence::new("reports");
        let path = file.path();
        let by_them = FencedWrite {
            database: path.to_str().unwrap(),
            statement: fence.statement(),
            write: "INSERT INTO reports VALUES (1)",
            resource: "reports",
        };
        assert_eq!(SqlDriver::Diesel.write(by_them, 33), "accepted");
        write(&file, 10, 35).await.unwrap();
        assert_eq!(SqlDriver::Diesel.write(by_them, 34), "stale 35");
        assert_eq!(SqlDriver::Diesel.write(by_them, 36), "accepted");
        assert!(matches!(write(&file, 100, 35).await, Err(FenceError::Stale(_))));
        assert_eq!(file.number("SELECT sum(n) FROM reports").await, 12);
    });
    Ok(())
}
