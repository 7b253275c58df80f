//! sqlx on a SQLite file, with the library's journal: a look on one connection, and writes on another one.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_core::Owner;
use sqlx::sqlite::{SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Executor};
use tokio::sync::Mutex;

use super::{Calls, Driver};
use crate::Outcome;
use crate::raw::sql;
use crate::subjects::TTL;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS lock_bench_baseline \
                     (name BLOB PRIMARY KEY, owner BLOB NOT NULL, token INTEGER NOT NULL, expires INTEGER NOT NULL)";
const LOOK: &str = "SELECT owner FROM lock_bench_baseline WHERE name = ? AND expires > ?";
const TAKE: &str = "INSERT INTO lock_bench_baseline AS l (name, owner, token, expires) VALUES (?1, ?2, 1, ?3) \
                    ON CONFLICT (name) DO UPDATE SET owner = ?2, token = l.token + 1, expires = ?3 WHERE l.expires <= ?4";
const RELEASE: &str = "UPDATE lock_bench_baseline SET owner = x'', expires = 0 WHERE name = ? AND owner = ?";

pub(super) struct File(Arc<Connections>);

/// Looks don't wait behind writes.
struct Connections {
    looks: Mutex<SqliteConnection>,
    writes: Mutex<SqliteConnection>,
}

impl File {
    pub(super) async fn connect(url: &str) -> Outcome<File> {
        let options = sql::sqlite(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let (mut looks, writes) = (options.connect().await?, options.connect().await?);
        looks.execute(TABLE).await?;
        Ok(File(Arc::new(Connections { looks: Mutex::new(looks), writes: Mutex::new(writes) })))
    }
}

#[async_trait]
impl Driver for File {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        Ok(Named { connections: self.0.clone(), name: name.as_bytes().to_vec() })
    }
}

pub(super) struct Named {
    connections: Arc<Connections>,
    name: Vec<u8>,
}

#[async_trait]
impl Calls for Named {
    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let [now, expires] = [now, now + TTL].map(|time| time.as_micros() as i64);
        let look = sqlx::query(LOOK).bind(&self.name).bind(now);
        let held = look.fetch_optional(&mut *self.connections.looks.lock().await).await?;
        let take = sqlx::query(TAKE).bind(&self.name).bind(&owner.as_bytes()[..]).bind(expires).bind(now);
        let taken = take.execute(&mut *self.connections.writes.lock().await).await?;
        Ok(held.is_none() && taken.rows_affected() == 1)
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        let release = sqlx::query(RELEASE).bind(&self.name).bind(&owner.as_bytes()[..]);
        Ok(release.execute(&mut *self.connections.writes.lock().await).await?.rows_affected() == 1)
    }
}
