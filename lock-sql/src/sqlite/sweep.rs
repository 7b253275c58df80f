//! Rows of locks that nobody has had for a day are deleted, a few at a time.
//!
//! A row outlives its lock because it carries the token. Once the clock stands a day beyond the token, the next one is
//! higher without it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Row as _;

use super::errors;
use super::lane::Late;
use super::table::SqliteTable;
use crate::call::Call;
use crate::sqlite::lane::Lane;

/// How far the clock has to stand beyond a token that is forgotten; no reading of it may lie further below another.
pub(crate) const IDLE: Duration = Duration::from_secs(24 * 3600);

/// Between two sweeps.
const RELEASES: u32 = 100;
/// More rows than locks can have been added since the last sweep, so that names that are used once don't add up.
const ROWS: i64 = 200;

/// Where the last sweep ended.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    releases: AtomicU32,
    after: Arc<Mutex<Vec<u8>>>,
}

const FIND: &str = "SELECT max(name), count(*), sum(token < ?2) FROM
  (SELECT name, token FROM onelock_locks WHERE name > ?1 ORDER BY name LIMIT ?3)";

const DELETE: &str = "DELETE FROM onelock_locks
WHERE name > ?1 AND name <= ?2 AND token < ?3 AND (boot <> ?4 OR expires <= ?5)";

impl Sweep {
    /// Sweeps beside each hundredth release, which doesn't wait for it.
    pub(crate) fn after_a_release(&self, table: &SqliteTable, call: &Call) {
        let turn = self.releases.fetch_add(1, Ordering::Relaxed) % RELEASES == RELEASES - 1;
        if turn {
            let call = Call::begin(&call.clock, PATIENCE);
            let (looks, writes, boot) = (table.looks.clone(), table.writes.clone(), table.time.boot());
            let after = self.after.clone();
            // What was not swept is swept another time.
            tokio::spawn(async move { sweep(looks, writes, boot.to_vec(), &after, call).await.ok() });
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(1);

async fn sweep(
    looks: Lane,
    writes: Lane,
    boot: Vec<u8>,
    after: &Mutex<Vec<u8>>,
    call: Call,
) -> lock_core::Result<()> {
    let idle = i64::try_from(IDLE.as_micros()).unwrap_or(i64::MAX);
    let from = after.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let begin = from.clone();
    let find =
        move |now: super::time::Now| sqlx::query(FIND).bind(begin.clone()).bind(now.wall - idle).bind(ROWS);
    let found = looks.ask(&call, Late::Welcome, find).await?;
    let Some(row) = found.rows.first() else { return Ok(()) };
    let read = || Ok((row.try_get::<Option<Vec<u8>>, _>(0)?, row.try_get::<i64, _>(1)?, row.try_get(2)?));
    let (last, rows, old): (_, _, Option<i64>) = read().map_err(errors::asking)?;
    let next = last.clone().filter(|_| rows == ROWS).unwrap_or_default();
    *after.lock().unwrap_or_else(PoisonError::into_inner) = next;
    if let (Some(last), Some(1..)) = (last, old) {
        let delete = move |now: super::time::Now| {
            let delete = sqlx::query(DELETE).bind(from.clone()).bind(last.clone()).bind(now.wall - idle);
            delete.bind(boot.clone()).bind(now.shared)
        };
        writes.ask(&call, Late::Undone, delete).await?;
    }
    Ok(())
}
