//! Deletes the rows of locks that no client has held for a day.

use lock_core::Result;
use lock_core::toolkit::Call;
use sqlx::Row as _;

use super::errors;
use super::serial_connection::{SerialConnection, Writes};
use super::time::Now;
use crate::sweep::{IDLE_BEFORE_DELETE, ROWS, Rows, Swept};

const FIND: &str = "SELECT max(name), count(*), sum(token < ?2) FROM
  (SELECT name, token FROM main.onelock_locks WHERE name > ?1 ORDER BY name LIMIT ?3)";

const DELETE: &str = "DELETE FROM main.onelock_locks
WHERE name > ?1 AND name <= ?2 AND token < ?3 AND (boot <> ?4 OR expires <= ?5)";

/// The rows of the table.
pub(super) struct TableRows {
    pub(super) looks: SerialConnection,
    pub(super) writes: SerialConnection,
    pub(super) boot: Vec<u8>,
}

impl Rows for TableRows {
    async fn sweep(&self, call: &Call, from: Vec<u8>) -> Result<Swept> {
        let idle = i64::try_from(IDLE_BEFORE_DELETE.as_micros()).unwrap_or(i64::MAX);
        let begin = from.clone();
        let find = move |now: Now| sqlx::query(FIND).bind(begin.clone()).bind(now.wall - idle).bind(ROWS);
        let found = self.looks.ask(call, Writes::Nothing, find).await?;
        let Some(row) = found.rows.first() else { return Ok(Swept { rows: 0, last: None, idle: 0 }) };
        let read = || Ok((row.try_get::<Option<Vec<u8>>, _>(0)?, row.try_get::<i64, _>(1)?, row.try_get(2)?));
        let (last, rows, old): (_, _, Option<i64>) = read().map_err(errors::asking)?;
        if let (Some(last), Some(1..)) = (last.clone(), old) {
            let boot = self.boot.clone();
            let delete = move |now: Now| {
                let delete = sqlx::query(DELETE).bind(from.clone()).bind(last.clone()).bind(now.wall - idle);
                delete.bind(boot.clone()).bind(now.shared)
            };
            self.writes.ask(call, Writes::InTime, delete).await?;
        }
        Ok(Swept { rows, last, idle: old.unwrap_or(0) })
    }
}
