//! The table of locks, and whether the one that is there is ours.
//!
//! Its version stands in its comment. Both are made in one transaction.

use lock_core::{ErrorKind, Result};
use sqlx::Row as _;

use super::dialect::PostgresDialect;
use super::errors;
use super::statement::Statement;
use super::statements::now;
use crate::call::Call;
use crate::server::{Pool, Purpose, TableName, missing};
use crate::version;

/// The version of the table that this crate reads and writes.
pub(super) const VERSION: u32 = 1;

/// A row stays when its lock is released: it carries the token. What can't be a lock can't be written. Half of each page
/// is left free for the row's next version, so that no index is touched when it is written.
const CREATE: &str = "CREATE TABLE {table} (
  name bytea NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 640),
  owner bytea NOT NULL CHECK (octet_length(owner) IN (0, 16)),
  token bigint NOT NULL CHECK (token > 0),
  expires bigint NOT NULL,
  waiting bigint NOT NULL DEFAULT 0,
  label bytea NOT NULL,
  revoked bytea
) WITH (fillfactor = 50);
COMMENT ON TABLE {table} IS 'onelock schema 1'";

const FIND: &str = concat!(
    "SELECT ",
    now!(),
    ", to_regclass('{table}') IS NOT NULL, obj_description(to_regclass('{table}'), 'pg_class')"
);

/// What was done about the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// It was there.
    Found,
    /// It was created.
    Created,
}

/// The statements that create the table.
pub(super) fn create(table: &TableName) -> String {
    CREATE.replace("{table}", &table.quoted('"'))
}

/// Creates the table if it isn't there; says whose it is if it isn't ours.
pub(super) async fn prepare(
    pool: &Pool<PostgresDialect>,
    call: &Call,
    table: &TableName,
) -> Result<Prepared> {
    if is_ours(pool, call, table).await? {
        return Ok(Prepared::Found);
    }
    let script = create(table);
    match pool.ask(call, Purpose::Enter, move |_| Statement::script(&script)).await {
        Ok(_) => Ok(Prepared::Created),
        // Somebody else may have created it at the same moment.
        Err(_) if is_ours(pool, call, table).await? => Ok(Prepared::Found),
        Err(e) if e.kind() == ErrorKind::Rejected => Err(missing(table, e)),
        Err(e) => Err(e),
    }
}

/// Whether our table is there; an error if another is.
async fn is_ours(pool: &Pool<PostgresDialect>, call: &Call, table: &TableName) -> Result<bool> {
    let find = FIND.replace("{table}", &table.quoted('"')).into();
    let answer = pool.ask(call, Purpose::Enter, move |_| Statement::new(&find)).await?;
    let Some(row) = answer.rows.first() else { return Ok(false) };
    let read = || Ok((row.try_get(1)?, row.try_get::<Option<String>, _>(2)?));
    let (is_there, comment): (bool, _) = read().map_err(errors::reading)?;
    if is_there {
        version::must_be_ours(table, comment.as_deref().unwrap_or_default(), VERSION)?;
    }
    Ok(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_its_version() {
        let created = create(&TableName::default());
        assert!(version::must_be_ours("t", &created, VERSION).is_ok(), "{created}");
    }
}
