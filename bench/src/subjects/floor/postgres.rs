//! sqlx on PostgreSQL: the library's statements on as many connections, set up like the library's.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_core::{Owner, Random};
use lock_sql::postgres::floor::{Texts, channel, connect, payload, texts};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Row};

use super::connections::Connections;
use super::raw::{Alone, Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

/// When a release sends a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subjects) enum Notifies {
    /// If a client waits for it, as the library does.
    IfWaiters,
    Never,
    Always,
}

pub(in crate::subjects) struct Floor {
    options: PgConnectOptions,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections<PgConnection>,
    texts: Texts,
    random: Random,
}

impl Floor {
    pub(in crate::subjects) async fn connect(url: &str, notifies: Notifies) -> Outcome<Floor> {
        // Creates the table.
        onelock::connect(url).await?;
        Floor::open(url, raw::connections_of(url)?, notifies).await
    }

    /// Opens this many connections to a server that has the table.
    async fn open(url: &str, count: usize, notifies: Notifies) -> Outcome<Floor> {
        let options = raw::postgres::options(url)?;
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(connect(options.clone()).await?);
        }
        let Texts { take, token, mark, release } = texts();
        let release = told(&release, notifies)?.into();
        let shared = Shared {
            connections: Connections::new(connections),
            texts: Texts { take, token, mark, release },
            random: Random::system(),
        };
        Ok(Floor { options, shared: Arc::new(shared) })
    }

    fn statements(&self, name: &str) -> Arc<Statements> {
        Arc::new(Statements { shared: self.shared.clone(), name: name.as_bytes().to_vec() })
    }
}

/// Connects once to a server that has the table, for one name.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Alone::new(Floor::open(url, 1, Notifies::IfWaiters).await?.statements(name))))
}

/// Returns the release statement, changed so that it notifies as `notifies` says.
fn told(release: &str, notifies: Notifies) -> Outcome<String> {
    const IF_WANTED: &str = "CASE WHEN wanted THEN pg_notify";
    if !release.contains(IF_WANTED) {
        return Err("the library's release has changed, and the floor can't adapt it".into());
    }
    Ok(match notifies {
        Notifies::IfWaiters => release.to_owned(),
        Notifies::Never => release.replace(IF_WANTED, "CASE WHEN false THEN pg_notify"),
        Notifies::Always => release.replace(IF_WANTED, "CASE WHEN true THEN pg_notify"),
    })
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.statements(name))))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let statements = self.statements(name);
        let table = statements.mark_and_table().await?;
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(&channel(table)).await?;
        Ok(Box::new(Holder::new(statements, Box::new(Notifications { listener, payload: payload(name) }))))
    }
}

/// The statements of one name.
struct Statements {
    shared: Arc<Shared>,
    name: Vec<u8>,
}

type Statement = Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// How long a mark lasts.
const MARK: Duration = Duration::from_secs(20);
/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Statements {
    async fn ask(&self, statement: Statement) -> Outcome<Vec<PgRow>> {
        let mut connection = self.shared.connections.borrow().await;
        Ok(statement.fetch_all(&mut *connection).await?)
    }

    fn statement(&self, text: &Arc<str>) -> Statement {
        sqlx::query(AssertSqlSafe(text.clone())).bind(self.name.clone())
    }

    async fn mark_and_table(&self) -> Outcome<i64> {
        let mark = self.statement(&self.shared.texts.mark).bind(micros(MARK)?);
        Ok(self.ask(mark).await?.first().ok_or("a mark was not answered")?.try_get(1)?)
    }
}

#[async_trait]
impl Calls for Statements {
    type Claim = Vec<u8>;

    async fn claim(&self) -> Outcome<Vec<u8>> {
        Ok(Owner::mint(&self.shared.random).as_bytes().to_vec())
    }

    async fn take(&self, owner: &mut Vec<u8>) -> Outcome<bool> {
        let deadline = micros(SystemTime::now().duration_since(UNIX_EPOCH)? + PATIENCE)?;
        let take = self.statement(&self.shared.texts.take).bind(owner.clone()).bind(micros(TTL)?);
        let rows = self.ask(take.bind(deadline).bind(&b"lock-bench"[..])).await?;
        let answer = rows.first().ok_or("an attempt was not answered")?;
        Ok(answer.try_get::<Option<i64>, _>(self.shared.texts.token)?.is_some())
    }

    async fn mark(&self) -> Outcome<()> {
        self.mark_and_table().await.map(drop)
    }

    async fn release(&self, owner: &mut Vec<u8>) -> Outcome<()> {
        let rows =
            self.ask(self.statement(&self.shared.texts.release).bind(owner.clone()).bind(0_i64)).await?;
        match rows.first() {
            Some(row) if row.try_get(1)? => Ok(()),
            _ => Err("the floor's lock was not released".into()),
        }
    }
}

fn micros(duration: Duration) -> Outcome<i64> {
    Ok(i64::try_from(duration.as_micros())?)
}

struct Notifications {
    listener: PgListener,
    /// The payload of notifications for our name.
    payload: String,
}

#[async_trait]
impl Pushes for Notifications {
    async fn next(&mut self) -> Outcome<()> {
        while self.listener.recv().await?.payload() != self.payload {}
        Ok(())
    }
}
