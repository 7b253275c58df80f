//! The table of locks, and the check that an existing table is one.
//!
//! SQLite keeps the text that a table was created with. The version is in that text, so that the table and the version
//! are created in one step, and nothing that belongs to the file's owner (its `user_version`, its `application_id`) is
//! changed.

use lock_core::{Error, Result};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Executor, Row};

use super::errors::{self, Obstacle};
use crate::version;

/// The version of the table that this crate reads and writes.
pub(crate) const VERSION: u32 = 1;

/// A row stays when its lock is released, because it carries the token. The checks refuse a row that can't be a lock.
pub(crate) const CREATE: &str = "CREATE TABLE IF NOT EXISTS onelock_locks (/* onelock schema 1 */
  name BLOB NOT NULL PRIMARY KEY CHECK (length(name) > 0),
  owner BLOB NOT NULL CHECK (length(owner) IN (0, 16)),
  token INTEGER NOT NULL CHECK (token > 0),
  boot BLOB NOT NULL CHECK (length(boot) = 16),
  expires INTEGER NOT NULL,
  label TEXT NOT NULL,
  revoked BLOB
) STRICT, WITHOUT ROWID";

const FIND: &str =
    "SELECT CASE type WHEN 'table' THEN sql ELSE '' END FROM main.sqlite_schema WHERE name = 'onelock_locks'";

/// Finds triggers, which would run after our statements and might undo them.
pub(crate) const TRIGGERS: &str = "
SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = 'onelock_locks' UNION ALL
SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = 'onelock_locks'";

/// Creates the table if it is missing. The error is `Rejected` if there is a table that is not one of locks.
pub(crate) async fn prepare(connection: &mut SqliteConnection) -> Result<(), Obstacle> {
    if find(connection).await?.is_none() {
        connection.execute(CREATE).await?;
    }
    match find(connection).await? {
        Some(created) => must_be_ours(&created)?,
        None => return Err(Error::rejected("the table onelock_locks was created, but is not there").into()),
    }
    Ok(refuse_triggers(&connection.fetch_all(TRIGGERS).await?)?)
}

/// `Rejected` if these rows name a trigger.
pub(crate) fn refuse_triggers(triggers: &[SqliteRow]) -> Result<()> {
    let Some(first) = triggers.first() else { return Ok(()) };
    let name: String = first.try_get(0).map_err(errors::asking)?;
    Err(Error::rejected(format!(
        "the table onelock_locks has a trigger {name}, which may undo what a lock client writes; drop it"
    )))
}

async fn find(connection: &mut SqliteConnection) -> Result<Option<String>, sqlx::Error> {
    connection.fetch_optional(FIND).await?.map(|row| row.try_get(0)).transpose()
}

fn must_be_ours(created: &str) -> Result<()> {
    version::must_be_ours("onelock_locks", created, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_its_version() {
        assert!(must_be_ours(CREATE).is_ok());
        assert!(must_be_ours(&CREATE.replace("schema 1", "schema 2")).is_err());
    }
}
