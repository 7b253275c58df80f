//! The server's report about itself when a connection is opened.

use sqlx::mysql::MySqlRow;
use sqlx::{Result, Row};

/// The server's report about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) flush: Flush,
    /// The server's role: a replica, or a primary that steps down, takes no writes.
    pub(super) writable: Writable,
}

/// When a committed transaction is on the disk: `innodb_flush_log_at_trx_commit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flush {
    /// Before the server answers the statement.
    AtCommit,
    /// About a second after the answer.
    #[default]
    Later,
}

/// The users from whom the server takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Writable {
    #[default]
    Yes,
    /// `read_only` is set.
    No,
}

impl Facts {
    pub(super) fn read(row: &MySqlRow) -> Result<Facts> {
        let flag = |column| row.try_get::<i64, _>(column);
        Ok(Facts {
            // MariaDB also has 3, which flushes more than 1.
            flush: if matches!(flag("flush")?, 1 | 3) { Flush::AtCommit } else { Flush::Later },
            writable: if flag("read_only")? == 0 { Writable::Yes } else { Writable::No },
        })
    }
}
