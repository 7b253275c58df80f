//! The raw driver of SQLite: the library's three statements on one connection, set up like the library's.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Owner, Random};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tokio::sync::Mutex;

use crate::Outcome;
use crate::clock::shared_now;
use crate::subjects::{Side, Subject, TTL, Worker};

const LOOK: &str = "SELECT owner, token, boot, expires, label, revoked FROM onelock_locks WHERE name = ?1";

const TAKE: &str = "
INSERT INTO onelock_locks AS l (name, owner, token, boot, expires, label) VALUES (?1, ?2, ?3, ?4, ?5 + ?6, ?7)
ON CONFLICT (name) DO UPDATE SET
  token = CASE WHEN l.owner = ?2 AND l.boot = ?4 AND l.expires > ?5 THEN l.token ELSE max(l.token + 1, ?3) END,
  expires = CASE WHEN l.owner = ?2 AND l.boot = ?4 THEN max(l.expires, ?5 + ?6) ELSE ?5 + ?6 END,
  owner = ?2, boot = ?4, label = ?7, revoked = NULL
WHERE l.owner = ?2 OR l.boot <> ?4 OR l.expires <= ?5
RETURNING token, expires";

const RELEASE: &str = "
UPDATE onelock_locks SET owner = x'', label = '', expires = CASE WHEN boot = ?3 AND expires > ?4 THEN -1 ELSE -2 END
WHERE name = ?1 AND owner = ?2 RETURNING expires = -1";

pub(super) struct Floor {
    connection: Arc<Mutex<SqliteConnection>>,
    random: Random,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        // Creates the table.
        onelock::connect(url).await?;
        let path = url.split_once(':').ok_or("no URL")?.1.split('?').next().unwrap_or_default();
        let options = SqliteConnectOptions::new()
            .filename(path.strip_prefix("//").unwrap_or(path))
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let connection = Arc::new(Mutex::new(options.connect().await?));
        Ok(Floor { connection, random: Random::system() })
    }
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles {
            connection: self.connection.clone(),
            random: self.random.clone(),
            name: name.as_bytes().to_vec(),
        }))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("a file has nothing that another process could wait for".into())
    }
}

struct Cycles {
    connection: Arc<Mutex<SqliteConnection>>,
    random: Random,
    name: Vec<u8>,
}

#[async_trait]
impl Worker for Cycles {
    /// In a task of its own, as every acquisition of the library has one.
    async fn cycle(&mut self) -> Outcome<()> {
        let (connection, name) = (self.connection.clone(), self.name.clone());
        let owner = Owner::mint(&self.random).as_bytes().to_vec();
        let cycle = tokio::spawn(async move {
            let held = sqlx::query(LOOK).bind(&name).fetch_all(&mut *connection.lock().await).await?;
            let now = i64::try_from(shared_now().as_nanos())?;
            let boot = vec![0; 16];
            let take = sqlx::query(TAKE).bind(&name).bind(&owner).bind(now / 1000 + 1).bind(&boot).bind(now);
            let take = take.bind(i64::try_from(TTL.as_nanos())?).bind("lock-bench");
            let taken = take.fetch_all(&mut *connection.lock().await).await?;
            if held.len() > 1 || taken.is_empty() {
                return Err("somebody else holds the floor's lock".into());
            }
            let release = sqlx::query(RELEASE).bind(&name).bind(&owner).bind(&boot).bind(now);
            match release.fetch_all(&mut *connection.lock().await).await?.len() {
                1 => Ok(()),
                _ => Err("the floor's lock was not released".into()),
            }
        });
        cycle.await?
    }
}
