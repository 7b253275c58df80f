//! `commits`: commits to an unrelated table in the same database, beside loops that take and release locks.
//!
//! PostgreSQL lets transactions with a NOTIFY commit only one at a time. No client waits for the loops' locks, so no
//! client needs to be notified of their releases.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::Outcome;
use crate::raw;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::tally::Slice;
use crate::workloads::loops::{LOOPS, PERIOD};
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// The share of their cycles that the loops have to do in time: slower loops would leave more of the server to the
/// commits.
const IN_TIME: f64 = 0.9;

/// A connection that commits, beside the loops of one subject.
pub(crate) struct Commits {
    connection: PgConnection,
    table: String,
    loops: OtherProcess,
}

impl Commits {
    pub(crate) async fn new(kind: Kind, url: &str, name: &str) -> Outcome<Commits> {
        let mut connection = raw::postgres::connect(url).await?;
        let table = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let create = format!("CREATE TABLE {table} (n bigint); INSERT INTO {table} VALUES (0)");
        connection.execute(sqlx::raw_sql(AssertSqlSafe(create))).await?;
        Ok(Commits { connection, table, loops: OtherProcess::start(kind, url, name).await? })
    }
}

#[async_trait]
impl Measurement for Commits {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        self.loops.tell(Order::Loop(length)).await?;
        let commit = format!("UPDATE {} SET n = n + 1", self.table);
        let (mut slice, start) = (Slice::default(), Instant::now());
        while start.elapsed() < length {
            let began = Instant::now();
            sqlx::query(AssertSqlSafe(commit.clone())).execute(&mut self.connection).await?;
            slice.record(began.elapsed());
        }
        slice.rate = slice.latencies.len() as f64 / start.elapsed().as_secs_f64();
        let cycles = self.loops.looped().await?;
        let expected = LOOPS as f64 * length.as_secs_f64() / PERIOD.as_secs_f64();
        if (cycles as f64) < expected * IN_TIME {
            slice.errors.push(format!("the loops did only {cycles} of {expected:.0} cycles"));
        }
        Ok(slice)
    }

    async fn end(mut self: Box<Self>) -> Outcome<()> {
        let drop = format!("DROP TABLE {}", self.table);
        self.connection.execute(sqlx::raw_sql(AssertSqlSafe(drop))).await?;
        Ok(self.connection.close().await?)
    }
}
