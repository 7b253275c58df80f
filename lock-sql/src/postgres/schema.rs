//! The table of locks, and whether the one that is there is ours.
//!
//! Its version stands in its comment. Both are made in one transaction.

use lock_core::{Error, ErrorKind, Result};

use super::errors;
use crate::server::{TableName, missing};
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

/// What a server says of the table's name.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) is_there: bool,
    pub(super) comment: Option<String>,
}

/// The statements that create the table.
pub(super) fn create(table: &TableName) -> String {
    CREATE.replace("{table}", &table.quoted('"'))
}

/// Whether our table is there; an error if another is.
pub(super) fn is_ours(table: &TableName, found: &Found) -> Result<bool> {
    if found.is_there {
        version::must_be_ours(table, found.comment.as_deref().unwrap_or_default(), VERSION)?;
    }
    Ok(found.is_there)
}

/// Why it could not be created.
pub(super) fn not_created(table: &TableName, error: sqlx::Error) -> Error {
    let error = errors::connecting(error);
    match error.kind() {
        ErrorKind::Rejected => missing(table, error),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_its_version() {
        let table = TableName::default();
        let found = |comment: Option<String>| Found { is_there: true, comment };
        let comment = create(&table).rsplit('\'').nth(1).map(str::to_owned);
        assert!(is_ours(&table, &found(comment)).unwrap());
        assert!(is_ours(&table, &found(None)).is_err());
        assert!(!is_ours(&table, &Found { is_there: false, comment: None }).unwrap());
    }
}
