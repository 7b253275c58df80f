//! The table of locks, and the check that an existing table is one.
//!
//! Its version is in its comment. The table and its comment are created in one transaction.

use lock_core::{Error, Result};

use super::errors;
use crate::server::{TableName, missing};
use crate::version;

/// The version of the table that this crate reads and writes.
pub(super) const VERSION: u32 = 1;

/// A row stays when its lock is released, because it carries the token. The checks refuse a row that can't be a lock.
/// Half of each page is left free for the next version of the row, so that a write touches no index.
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

/// The schema of the table, unless another was named. A session's search path has no part in it, because two users'
/// paths may differ.
const USUAL_SCHEMA: &str = "public";

/// The server's report about the table.
#[derive(Debug)]
pub(super) struct Found {
    /// `relpersistence`, if there is a table.
    pub(super) persistence: Option<String>,
    pub(super) comment: Option<String>,
}

/// Returns the table's name with its schema.
pub(super) fn located(named: &TableName) -> TableName {
    named.clone().within(USUAL_SCHEMA)
}

/// Refuses a schema of the server's own. In `pg_temp`, each session would have a table of its own.
pub(super) fn must_be_shared(named: TableName) -> Result<TableName> {
    match named.schema() {
        Some(schema) if schema.starts_with("pg_") => Err(Error::invalid(format!(
            "table={named}: schemas whose names begin with pg_ are the server's own; name another"
        ))),
        _ => Ok(named),
    }
}

/// Returns the statements that create the table.
pub(super) fn create(table: &TableName) -> String {
    CREATE.replace("{table}", &table.quoted('"'))
}

/// Returns whether the table of locks exists. It is an error if another table has its name.
pub(super) fn is_ours(table: &TableName, found: &Found) -> Result<bool> {
    let Some(persistence) = &found.persistence else { return Ok(false) };
    version::must_be_ours(table, found.comment.as_deref().unwrap_or_default(), VERSION)?;
    match persistence.as_str() {
        "p" => Ok(true),
        _ => Err(Error::rejected(format!(
            "the table {table} is UNLOGGED: a crash of the server empties it, and a standby has no row of it; run \
             ALTER TABLE {table} SET LOGGED"
        ))),
    }
}

/// Returns why the table could not be created.
pub(super) fn not_created(table: &TableName, error: sqlx::Error) -> Error {
    match errors::is_refusal(&error) {
        true => missing(table, errors::connecting(error)),
        false => errors::connecting(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_its_version() {
        let table = located(&TableName::default());
        let found = |comment: Option<String>| Found { persistence: Some("p".to_owned()), comment };
        let comment = create(&table).rsplit('\'').nth(1).map(str::to_owned);
        assert!(is_ours(&table, &found(comment.clone())).unwrap());
        assert!(is_ours(&table, &Found { persistence: Some("u".to_owned()), comment }).is_err());
        assert!(is_ours(&table, &found(None)).is_err());
        assert!(!is_ours(&table, &Found { persistence: None, comment: None }).unwrap());
    }
}
