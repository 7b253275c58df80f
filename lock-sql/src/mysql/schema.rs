//! The table of locks, and the check that an existing table is one.
//!
//! Its version is in its comment, so that the table and the version are created in one step.

use lock_core::toolkit::Call;
use lock_core::{Error, Result};
use sqlx::Row as _;

use super::errors::{self, Code};
use super::table::MySqlTable;
use crate::server::{Purpose, TableName, missing};
use crate::version;

/// The version of the table that this crate reads and writes.
pub(super) const VERSION: u32 = 1;

/// When the table was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Now,
    Before,
}

/// Returns the statement that creates the table. A row stays when its lock is released, because it carries the token.
pub(super) fn create(table: &TableName) -> String {
    let table = table.quoted('`');
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
  name VARBINARY(640) NOT NULL PRIMARY KEY,
  owner VARBINARY(16) NOT NULL,
  token BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  waiting BIGINT NOT NULL DEFAULT 0,
  label VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  revoked VARBINARY(16)
) ENGINE=InnoDB COMMENT='onelock schema {VERSION}'"
    )
}

/// Creates the table if it is missing. The error is `Rejected` if there is a table that is not one of locks.
pub(super) async fn prepare(table: &MySqlTable, call: &Call) -> Result<Made> {
    let made = match find(table, call).await? {
        Some(found) => return must_be_ours(&table.name, &found).map(|()| Made::Before),
        None => make(table, call).await?,
    };
    match find(table, call).await? {
        Some(found) => must_be_ours(&table.name, &found).map(|()| made),
        None => Err(Error::rejected(format!("the table {} was created, but it is not there", table.name))),
    }
}

/// Checks that the table exists and is one of locks.
pub(super) async fn look(table: &MySqlTable, call: &Call) -> Result<()> {
    match find(table, call).await? {
        Some(found) => must_be_ours(&table.name, &found),
        None => Err(Error::rejected(format!(
            "the table {} is missing; `lock init --on URL` creates it",
            table.name
        ))),
    }
}

async fn make(table: &MySqlTable, call: &Call) -> Result<Made> {
    let create = create(&table.name);
    match table.pool.ask(call, Purpose::Acquire, move |_| create.clone().into()).await {
        Ok(_) => Ok(Made::Now),
        Err(e) if errors::is_refusal(&e) => Err(missing(&table.name, e)),
        Err(e) => Err(e),
    }
}

/// Returns the statement that the server shows for the table; `None` if there is none.
async fn find(table: &MySqlTable, call: &Call) -> Result<Option<String>> {
    let show = format!("SHOW CREATE TABLE {}", table.name.quoted('`'));
    let answer = match table.pool.ask(call, Purpose::Acquire, move |_| show.clone().into()).await {
        Ok(answer) => answer,
        Err(e) if errors::code_of(&e) == Some(Code::NO_TABLE) => return Ok(None),
        Err(e) => return Err(e),
    };
    let row = answer.rows.first().ok_or_else(|| errors::reading(sqlx::Error::RowNotFound))?;
    row.try_get(1).map(Some).map_err(errors::reading)
}

fn must_be_ours(name: &TableName, created: &str) -> Result<()> {
    // The lines before the options are columns and indexes.
    let options = created.rsplit_once('\n').map_or(created, |(_, options)| options);
    let comment = options.split_once("COMMENT='").and_then(|(_, rest)| rest.split_once('\''));
    version::must_be_ours(name, comment.map_or("", |(comment, _)| comment), VERSION)?;
    match options.contains("ENGINE=InnoDB") {
        true => Ok(()),
        false => Err(Error::rejected(format!(
            "the table {name} does not use InnoDB, and no other engine keeps what was granted; run ALTER TABLE {name} \
             ENGINE=InnoDB"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_its_version_and_its_engine() {
        let name = TableName::default();
        let created = |options: &str| {
            let text =
                format!("CREATE TABLE `onelock_locks` (\n  `name` varbinary(640) NOT NULL\n) {options}");
            must_be_ours(&name, &text).map_err(|e| e.to_string())
        };
        assert_eq!(created("ENGINE=InnoDB DEFAULT CHARSET=latin1 COMMENT='onelock schema 1'"), Ok(()));
        assert!(created("ENGINE=InnoDB COMMENT='onelock schema 2'").unwrap_err().contains("newer"));
        assert!(created("ENGINE=InnoDB COMMENT='onelock schema 0'").unwrap_err().contains("older"));
        assert!(created("ENGINE=InnoDB").unwrap_err().contains("not a table of locks"));
        assert!(created("ENGINE=MyISAM COMMENT='onelock schema 1'").unwrap_err().contains("InnoDB"));
        assert!(create(&name).contains("onelock schema 1"));
    }
}
