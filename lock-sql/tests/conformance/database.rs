//! A database file in a folder of its own.

use std::path::{Path, PathBuf};

use lock_core::{Client, Options, Result};
use lock_sql::sqlite::Sqlite;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// Where another process that plays a part finds the database.
pub(crate) const ENVIRONMENT: &str = "LOCK_TEST_SQLITE";

#[derive(Debug)]
pub(crate) struct Database {
    /// What is removed in the end; empty for a database of another process.
    folder: TempDir,
    path: PathBuf,
}

impl Database {
    /// That of the process which started this one for a part, or else a new one.
    pub(crate) fn of_this_process() -> Database {
        let mut database = Database::new();
        if let Some(path) = std::env::var_os(ENVIRONMENT) {
            database.path = path.into();
        }
        database
    }

    pub(crate) fn new() -> Database {
        let folder = TempDir::new().expect("the temporary folder is writable");
        std::fs::create_dir(folder.path().join("data")).expect("and so is one in it");
        let path = folder.path().join("data/locks.db");
        Database { folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with nothing in it but SQLite's files.
    pub(crate) fn data(&self) -> &Path {
        self.path.parent().expect("it has one")
    }

    /// Where the folder is while it is away.
    pub(crate) fn away(&self) -> PathBuf {
        self.folder.path().join("away")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.path.display())
    }

    /// A client whose statements are told to `statements`: that is sqlx' default.
    pub(crate) async fn open(&self, options: Options) -> Result<Client> {
        let file = SqliteConnectOptions::new().filename(&self.path).create_if_missing(true);
        Sqlite::from(file).open(options).await
    }

    pub(crate) async fn admin(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(&self.path).disable_statement_logging();
        options.connect().await.expect("the file is there")
    }
}
