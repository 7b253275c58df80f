//! The fences of lock-sql in transactions of other libraries' drivers. `sql-fences/` is the program that has these
//! drivers.

use std::fmt;
use std::process::Command;

use lock_test_servers::{Absence, Requirement};

use super::catalogue::SQL_FENCES;
use super::driver;
use super::foreign::why_missing;

/// Another library's driver for a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDriver {
    /// diesel, on SQLite.
    Diesel,
    /// sqlx 0.8, on PostgreSQL.
    Sqlx,
    /// tokio-postgres, on PostgreSQL.
    TokioPostgres,
}

/// One write of one holder, in a transaction of its own.
#[derive(Clone, Copy, Debug)]
pub struct FencedWrite<'a> {
    /// The database: a URL without parameters of ours, or the path of a file.
    pub database: &'a str,
    /// The fence's statement.
    pub statement: &'a str,
    /// The write that is done if the fence accepts the token.
    pub write: &'a str,
    /// The name of the fence's resource.
    pub resource: &'a str,
}

impl SqlDriver {
    /// Checks whether everything is there that the drivers need.
    ///
    /// # Errors
    ///
    /// If anything is missing. The error names it.
    pub fn find() -> Result<(), Absence> {
        let required = Requirement::from_env()?;
        why_missing(&SQL_FENCES).map_or(Ok(()), |why| Err(required.absent(SQL_FENCES.name, &why)))
    }

    /// Writes with this token. Returns `accepted`, or `stale` and the highest token.
    ///
    /// # Panics
    ///
    /// If the driver is not built, or fails.
    pub fn write(self, write: FencedWrite<'_>, token: u64) -> String {
        let folder = driver::folder(SQL_FENCES.name).expect("`find` has shown that it is built");
        let FencedWrite { database, statement, write, resource } = write;
        let library = self.to_string();
        let arguments = [&library, database, statement, write, resource, &token.to_string()];
        let done =
            Command::new(folder.join("driver")).args(arguments).output().expect("the driver can be started");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{self}: {said}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }
}

impl fmt::Display for SqlDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SqlDriver::Diesel => "diesel",
            SqlDriver::Sqlx => "sqlx",
            SqlDriver::TokioPostgres => "tokio-postgres",
        })
    }
}
