//! Deletes the rows of locks that no client has held for a day.

use lock_core::Result;
use lock_core::driver::Call;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::errors;
use super::table::MySqlTable;
use crate::server::Purpose;
use crate::sweep::Swept;

/// Sweeps the rows behind `from`. A look finds the idle ones, and they are deleted by name, so that no other row is
/// locked.
pub(super) fn sweep(
    table: &MySqlTable,
    call: Call,
    from: Vec<u8>,
) -> impl Future<Output = Result<Swept>> + Send + use<> {
    let (pool, statements) = (table.pool.clone(), table.statements.clone());
    async move {
        let find = statements.clone();
        let answer = pool.ask(&call, Purpose::Acquire, move |_| find.idle(&from)).await?;
        let rows: Vec<(Vec<u8>, bool)> =
            answer.rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(errors::reading)?;
        let (seen, last) = (rows.len(), rows.last().map(|(name, _)| name.clone()));
        let idle: Vec<Vec<u8>> = rows.into_iter().filter_map(|(name, idle)| idle.then_some(name)).collect();
        if !idle.is_empty() {
            pool.ask(&call, Purpose::Acquire, move |_| statements.delete_idle(&idle)).await?;
        }
        Ok(Swept { rows: i64::try_from(seen).unwrap_or(i64::MAX), last })
    }
}

fn read(row: &MySqlRow) -> sqlx::Result<(Vec<u8>, bool)> {
    Ok((row.try_get("name")?, row.try_get::<i64, _>("idle")? != 0))
}
