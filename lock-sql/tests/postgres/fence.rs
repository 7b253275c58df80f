//! Tests of the fence.

use std::time::Duration;

use lock_core::FencingToken;
use lock_foreign_clients::{FencedWrite, SqlDriver};
use lock_sql::FenceError;
use lock_sql::postgres::Fence;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::Outcome;
use crate::server::{Site, run, until};

async fn prepared() -> Site {
    let site = Site::new();
    Fence::create_table(&mut site.admin().await).await.ok();
    site.execute("CREATE TABLE TABLE_ (n bigint)").await;
    site
}

/// Writes `n` in a transaction of the user's.
async fn write(site: &Site, n: i64, offered: u64) -> Result<(), FenceError> {
    let mut admin = site.admin().await;
    let mut transaction = admin.begin().await?;
    let token = FencingToken::new(offered).unwrap();
    Fence::new(site.table.clone()).accept(&mut transaction, token).await?;
    let insert = format!("INSERT INTO {} VALUES ({n})", site.table);
    transaction.execute(AssertSqlSafe(insert)).await?;
    transaction.commit().await?;
    Ok(())
}

pub(crate) fn a_stale_token_writes_nothing() -> Outcome {
    run(async {
        let site = prepared().await;
        write(&site, 1, 7).await.unwrap();
        write(&site, 2, 7).await.unwrap();
        write(&site, 3, u64::MAX / 2).await.unwrap();
        match write(&site, 4, u64::MAX / 2 - 1).await {
            Err(FenceError::Stale(stale)) => {
                assert_eq!((stale.offered.get(), stale.highest.get()), (u64::MAX / 2 - 1, u64::MAX / 2));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(site.number("SELECT sum(n)::bigint FROM TABLE_").await, 6);
        Fence::new("another").accept(&mut site.admin().await, FencingToken::new(1).unwrap()).await.unwrap();
    })
}

/// The statement is documented for every driver: each of them decides as ours does, and about the same tokens.
pub(crate) fn the_statement_is_every_drivers() -> Outcome {
    SqlDriver::find().map_err(lock_test_servers::Absence::reason)?;
    run(async {
        for driver in [SqlDriver::TokioPostgres, SqlDriver::Sqlx] {
            let site = prepared().await;
            let fence = Fence::new(site.table.clone());
            let by_them = FencedWrite {
                database: site.url(),
                statement: fence.statement(),
                write: &format!("INSERT INTO {} VALUES (1)", site.table),
                resource: &site.table,
            };
            assert_eq!(driver.write(by_them, 7), "accepted", "{driver}");
            assert_eq!(driver.write(by_them, 7), "accepted", "{driver}: a holder may write more than once");
            write(&site, 10, 9).await.unwrap();
            assert_eq!(driver.write(by_them, 8), "stale 9", "{driver}");
            assert_eq!(driver.write(by_them, 11), "accepted", "{driver}");
            let ours = write(&site, 100, 10).await;
            assert!(matches!(ours, Err(FenceError::Stale(_))), "{driver}: {ours:?}");
            assert_eq!(site.number("SELECT sum(n)::bigint FROM TABLE_").await, 13, "{driver}");
        }
    })
}

pub(crate) fn transactions_of_two_holders_come_in_order() -> Outcome {
    run(async {
        let site = prepared().await;
        let mut admin = site.admin().await;
        let mut later = admin.begin().await.unwrap();
        Fence::new(site.table.clone()).accept(&mut later, FencingToken::new(9).unwrap()).await.unwrap();
        let other = site.clone();
        let earlier = tokio::spawn(async move { write(&other, 1, 8).await });
        let fences = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%onelock_fences%'";
        until("the earlier transaction waits", async || site.number(fences).await == 1).await;
        assert!(!earlier.is_finished());
        later.commit().await.unwrap();
        let outcome = tokio::time::timeout(Duration::from_secs(5), earlier).await.unwrap().unwrap();
        assert!(matches!(outcome, Err(FenceError::Stale(_))), "{outcome:?}");
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 0);
    })
}

pub(crate) fn a_transaction_that_was_rolled_back_leaves_no_token() -> Outcome {
    run(async {
        let site = prepared().await;
        let mut admin = site.admin().await;
        let mut transaction = admin.begin().await.unwrap();
        Fence::new(site.table.clone()).accept(&mut transaction, FencingToken::new(9).unwrap()).await.unwrap();
        transaction.rollback().await.unwrap();
        write(&site, 1, 8).await.unwrap();
    })
}

/// A session's temporary tables precede all other tables, and a schema with the user's name precedes `public`.
pub(crate) fn a_fence_is_one_whatever_the_search_path() -> Outcome {
    run(async {
        let site = prepared().await;
        write(&site, 1, 9).await.unwrap();
        let mut admin = site.admin().await;
        let schema = format!("schema_of_{}", site.table);
        for path in
            [format!("SET search_path = {schema}, public"), "CREATE TEMP TABLE onelock_fences ()".to_owned()]
        {
            admin.execute(AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}"))).await.unwrap();
            admin.execute(AssertSqlSafe(path)).await.unwrap();
            Fence::create_table(&mut admin).await.unwrap();
            let mut transaction = admin.begin().await.unwrap();
            let stale = FencingToken::new(8).unwrap();
            let outcome = Fence::new(site.table.clone()).accept(&mut transaction, stale).await;
            assert!(matches!(outcome, Err(FenceError::Stale(_))), "{outcome:?}");
        }
        // Another table has other tokens.
        let other = Fence::new("x").table(&format!("{schema}.fences")).unwrap();
        let like = format!("CREATE TABLE {schema}.fences (LIKE public.onelock_fences INCLUDING ALL)");
        admin.execute(AssertSqlSafe(like)).await.unwrap();
        other.accept(&mut admin, FencingToken::new(1).unwrap()).await.unwrap();
        assert!(Fence::new("x").table("pg_temp.fences").is_err());
    })
}

/// A table that was created in the schema to which a path led has the tokens.
pub(crate) fn a_fence_table_in_another_schema_is_reused() -> Outcome {
    run(async {
        let site = Site::new().in_a_database_of_its_own().await;
        let mut admin = site.admin().await;
        let old = Fence::schema().replace("public.", "old.");
        admin.execute(sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA old; {old}")))).await.unwrap();
        let error = Fence::create_table(&mut admin).await.unwrap_err();
        assert!(error.to_string().contains("old.onelock_fences"), "{error}");
        admin.execute("ALTER TABLE old.onelock_fences SET SCHEMA public").await.unwrap();
        Fence::create_table(&mut admin).await.unwrap();
    })
}
