//! sqlx on SQLite: the library's statements on as many connections, set up like the library's.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_core::{Owner, Random};
use lock_sql::sqlite::floor::{LOOK, RELEASE, TAKE};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tokio::sync::Mutex;

use super::raw::{Alone, Calls, Cycles};
use crate::Outcome;
use crate::clock::shared_now;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct Floor {
    connections: Arc<Connections>,
    random: Random,
}

/// One connection for looks and one for writes, so that looks don't wait behind writes.
struct Connections {
    looks: Mutex<SqliteConnection>,
    writes: Mutex<SqliteConnection>,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        // Creates the table.
        onelock::connect(url).await?;
        Floor::open(url).await
    }

    /// Opens a file that has the table.
    async fn open(url: &str) -> Outcome<Floor> {
        let options = raw::sqlite::options(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let looks = Mutex::new(options.connect().await?);
        let writes = Mutex::new(options.connect().await?);
        Ok(Floor { connections: Arc::new(Connections { looks, writes }), random: Random::system() })
    }

    fn statements(&self, name: &str) -> Arc<Statements> {
        let (connections, random) = (self.connections.clone(), self.random.clone());
        Arc::new(Statements { connections, random, name: name.as_bytes().to_vec() })
    }
}

/// Opens a file that has the table, for one name.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Alone::new(Floor::open(url).await?.statements(name))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.statements(name))))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("a file has nothing that another process could wait for".into())
    }
}

/// The statements of one name.
struct Statements {
    connections: Arc<Connections>,
    random: Random,
    name: Vec<u8>,
}

/// One acquisition.
struct Claim {
    owner: Vec<u8>,
    /// The wall clock, as the library's tokens have it. A row with an older one would be swept by the library's client.
    token: i64,
    boot: Vec<u8>,
    now: i64,
}

#[async_trait]
impl Calls for Statements {
    type Claim = Claim;

    async fn claim(&self) -> Outcome<Claim> {
        let now = i64::try_from(shared_now().as_nanos())?;
        let token = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
        Ok(Claim { owner: Owner::mint(&self.random).as_bytes().to_vec(), token, boot: vec![0; 16], now })
    }

    async fn take(&self, Claim { owner, token, boot, now }: &mut Claim) -> Outcome<bool> {
        let look = sqlx::query(LOOK).bind(&self.name);
        let held = look.fetch_all(&mut *self.connections.looks.lock().await).await?;
        let take = sqlx::query(TAKE).bind(&self.name).bind(&*owner).bind(*token).bind(&*boot).bind(*now);
        let take = take.bind(i64::try_from(TTL.as_nanos())?).bind("lock-bench");
        let taken = take.fetch_all(&mut *self.connections.writes.lock().await).await?;
        Ok(held.len() <= 1 && !taken.is_empty())
    }

    async fn release(&self, Claim { owner, boot, now, .. }: &mut Claim) -> Outcome<()> {
        let release = sqlx::query(RELEASE).bind(&self.name).bind(&*owner).bind(&*boot).bind(*now);
        match release.fetch_all(&mut *self.connections.writes.lock().await).await?.len() {
            1 => Ok(()),
            _ => Err("the floor's lock was not released".into()),
        }
    }
}
