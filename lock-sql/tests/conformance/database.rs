//! A database file in a folder of its own.

use std::path::{Path, PathBuf};

use lock_core::{Client, Options, Result};
use lock_sql::sqlite::Sqlite;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// The variable that tells the database's path to a process that plays a part in a case.
pub(crate) const ENVIRONMENT: &str = "LOCK_TEST_SQLITE";

#[derive(Debug)]
pub(crate) struct Database {
    /// The folder that is removed in the end; empty for a database of another process.
    folder: TempDir,
    path: PathBuf,
}

impl Database {
    /// Returns the database of the process that started this one to play a part, or else a new one.
    pub(crate) fn of_this_process() -> Database {
        let mut database = Database::new();
        if let Some(path) = std::env::var_os(ENVIRONMENT) {
            database.path = path.into();
        }
        database
    }

    pub(crate) fn new() -> Database {
        let folder = TempDir::new().expect("the temporary folder is writable");
        std::fs::create_dir(folder.path().join("data")).expect("a folder in it can be created");
        let path = folder.path().join("data/locks.db");
        Database { folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder that contains nothing but SQLite's files.
    pub(crate) fn data(&self) -> &Path {
        self.path.parent().expect("it has a folder")
    }

    /// Returns the path to which the folder is moved while it is away.
    pub(crate) fn away(&self) -> PathBuf {
        self.folder.path().join("away")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.path.display())
    }

    /// Opens a client whose statements are reported to `statements`, which is sqlx' default.
    pub(crate) async fn open(&self, options: Options) -> Result<Client> {
        let file = SqliteConnectOptions::new().filename(&self.path).create_if_missing(true);
        Sqlite::from(file).open(options).await
    }

    pub(crate) async fn admin(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(&self.path).disable_statement_logging();
        options.connect().await.expect("the file is there")
    }
}
