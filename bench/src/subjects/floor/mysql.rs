//! sqlx on MySQL and MariaDB: the library's statements on as many connections, set up like the library's.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use lock_core::{Client, Ending, Label, Owner, Random};
use lock_sql::mysql::floor;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Either};

use super::connections::Connections;
use super::raw::{Alone, Calls, Cycles};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct Floor {
    shared: Arc<Shared>,
    /// The library's client, which makes the rows of new names.
    ours: Client,
}

struct Shared {
    connections: Connections<MySqlConnection>,
    random: Random,
    label: Label,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        // Creates the table.
        let ours = onelock::connect(url).await?;
        Ok(Floor { shared: Arc::new(Shared::open(url, raw::connections_of(url)?).await?), ours })
    }
}

impl Shared {
    /// Opens this many connections to a server that has the table.
    async fn open(url: &str, count: usize) -> Outcome<Shared> {
        let options = raw::mysql::options(url)?;
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(floor::connect(options.clone()).await?);
        }
        Ok(Shared {
            connections: Connections::new(connections),
            random: Random::system(),
            label: Label::new("lock-bench"),
        })
    }
}

/// Connects once to a server that has a row of the name.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    let shared = Arc::new(Shared::open(url, 1).await?);
    Ok(Box::new(Alone::new(Arc::new(Statements { shared, name: name.to_owned() }))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        // The row stays, so each name needs this only once.
        if self.ours.lock(name).build()?.acquire().await?.release().await == Ending::Expired {
            return Err("a lock was lost while its row was made".into());
        }
        let statements = Statements { shared: self.shared.clone(), name: name.to_owned() };
        Ok(Box::new(Cycles(Arc::new(statements))))
    }

    /// The library finds no row to take, looks, and makes the row.
    async fn use_once(&self, name: &str) -> Outcome<()> {
        let statements = Statements { shared: self.shared.clone(), name: name.to_owned() };
        Cycles(Arc::new(NewRow(statements))).cycle().await
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("the server has nothing that another process could wait for".into())
    }
}

/// The statements of one name.
struct Statements {
    shared: Arc<Shared>,
    name: String,
}

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Statements {
    /// Runs a statement, and returns the value that it set `LAST_INSERT_ID` to.
    async fn ask(&self, text: String) -> Outcome<u64> {
        let mut connection = self.shared.connections.borrow().await;
        let mut parts = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut *connection);
        let mut number = 0;
        while let Some(part) = parts.try_next().await? {
            if let Either::Left(done) = part {
                number = done.last_insert_id();
            }
        }
        Ok(number)
    }
}

#[async_trait]
impl Calls for Statements {
    type Claim = Owner;

    async fn claim(&self) -> Outcome<Owner> {
        Ok(Owner::mint(&self.shared.random))
    }

    async fn take(&self, owner: &mut Owner) -> Outcome<bool> {
        let take = floor::take(&self.name, owner, TTL, &self.shared.label, deadline()?);
        Ok(self.ask(take).await? != 0)
    }

    async fn release(&self, owner: &mut Owner) -> Outcome<()> {
        match self.ask(floor::release(&self.name, owner)).await? {
            0 => Err("the floor's lock was not released".into()),
            _ => Ok(()),
        }
    }
}

/// The statements of a name that has no row.
struct NewRow(Statements);

#[async_trait]
impl Calls for NewRow {
    type Claim = Owner;

    async fn claim(&self) -> Outcome<Owner> {
        self.0.claim().await
    }

    async fn take(&self, owner: &mut Owner) -> Outcome<bool> {
        let NewRow(statements) = self;
        if statements.take(owner).await? {
            return Ok(true);
        }
        statements.ask(floor::look(&statements.name)).await?;
        let label = &statements.shared.label;
        let take = floor::make_and_take(&statements.name, owner, TTL, label, deadline()?);
        Ok(statements.ask(take).await? != 0)
    }

    async fn release(&self, owner: &mut Owner) -> Outcome<()> {
        self.0.release(owner).await
    }
}

/// Returns the end of a statement's patience, in microseconds of the wall clock.
fn deadline() -> Outcome<i64> {
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH)? + PATIENCE;
    Ok(i64::try_from(deadline.as_micros())?)
}
