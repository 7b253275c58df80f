//! Deletes the rows of locks that no client has held for a day.

use std::sync::Arc;

use lock_core::Result;
use lock_core::toolkit::{Call, whole_micros};
use sqlx::Row as _;

use super::dialect::PostgresDialect;
use super::errors;
use super::statement::Statement;
use crate::server::{Pool, Purpose};
use crate::sweep::{IDLE_BEFORE_DELETE, ROWS, Rows, Swept};

/// The rows of the table.
pub(super) struct TableRows {
    pub(super) pool: Pool<PostgresDialect>,
    pub(super) sweep: Arc<str>,
}

impl Rows for TableRows {
    async fn sweep(&self, call: &Call, from: Vec<u8>) -> Result<Swept> {
        let text = self.sweep.clone();
        let sweep =
            move |_| Statement::new(&text).bytes(&from).number(ROWS).number(whole_micros(IDLE_BEFORE_DELETE));
        let answer = self.pool.ask(call, Purpose::Acquire, sweep).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)?;
        let read = || Ok(Swept { rows: row.try_get(1)?, last: row.try_get(2)?, idle: row.try_get(3)? });
        read().map_err(errors::reading)
    }
}
