//! The rules that are particular to SQLite. What every backend promises is the conformance suite's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fence;
mod lease;
mod opening;
mod rows;
mod statements;
mod wakes;

use std::path::PathBuf;
use std::time::Duration;

use lock_core::driver::{Attempt, Claim, Mode, Request, Waits};
use lock_core::{Client, Label, Name, Options, Owner, Random};
use lock_sql::sqlite::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;

/// A file of a test's own.
struct File {
    folder: TempDir,
}

impl File {
    fn new() -> File {
        File { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.path()).create_if_missing(true).disable_statement_logging()
    }

    async fn client(&self) -> Client {
        Sqlite::from(self.options()).open(Options::default()).await.unwrap()
    }

    async fn admin(&self) -> SqliteConnection {
        self.options().connect().await.unwrap()
    }

    /// Runs a statement of the test's own making.
    async fn execute(&self, sql: &str) -> u64 {
        self.admin().await.execute(AssertSqlSafe(sql.to_owned())).await.unwrap().rows_affected()
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.admin().await).await.unwrap()
    }
}

const TTL: Duration = Duration::from_secs(10);

fn claim(client: &Client, name: &str, patience: Duration) -> Box<dyn Claim> {
    client.driver().claim(Request {
        name: Name::new(name).unwrap(),
        owner: Owner::mint(&Random::system()),
        mode: Mode::Exclusive,
        ttl: TTL,
        patience,
        waits: Waits::No,
        label: Label::new("a test"),
        clock: client.clock().clone(),
    })
}

async fn granted(claim: &mut Box<dyn Claim>) -> u64 {
    match claim.attempt().await.unwrap() {
        Attempt::Granted(grant) => grant.token.get(),
        Attempt::Busy(busy) => panic!("{busy:?}"),
    }
}
