//! Deletes the rows of locks that no client has held for a day.

use lock_core::Result;
use lock_core::toolkit::Call;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::errors;
use super::server::Server;
use super::statements::Statements;
use crate::server::{Pool, Purpose};
use crate::sweep::{Rows, Swept};

/// The rows of the table.
pub(super) struct TableRows {
    pub(super) pool: Pool<Server>,
    pub(super) statements: Statements,
}

impl Rows for TableRows {
    /// A look finds the idle rows, and they are deleted by name, so that no other row is locked.
    async fn sweep(&self, call: &Call, from: Vec<u8>) -> Result<Swept> {
        let find = self.statements.clone();
        let answer = self.pool.ask(call, Purpose::Acquire, move |_| find.idle(&from)).await?;
        let rows: Vec<(Vec<u8>, bool)> =
            answer.rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(errors::reading)?;
        let (seen, last) = (rows.len(), rows.last().map(|(name, _)| name.clone()));
        let names: Vec<Vec<u8>> = rows.into_iter().filter_map(|(name, idle)| idle.then_some(name)).collect();
        let idle = names.len();
        if !names.is_empty() {
            let delete = self.statements.clone();
            self.pool.ask(call, Purpose::Acquire, move |_| delete.delete_idle(&names)).await?;
        }
        let count = |n| i64::try_from(n).unwrap_or(i64::MAX);
        Ok(Swept { rows: count(seen), last, idle: count(idle) })
    }
}

fn read(row: &MySqlRow) -> sqlx::Result<(Vec<u8>, bool)> {
    Ok((row.try_get("name")?, row.try_get::<i64, _>("idle")? != 0))
}
