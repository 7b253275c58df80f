//! The server's reports of releases and revokes: notifications on one channel of the table of locks, which a
//! connection of its own listens to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::Context;
use lock_core::toolkit::{Audience, Missed, Notice, Prefix, Source, SourceError};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use super::session::Sessions;
use super::{errors, payload};
use crate::server::LockWait;

/// The only topic: the table of locks, whichever has its name at present. The channel has the table's number, which is
/// another one when the table was created anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LocksTable;

/// The number of the table that is listened to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ListenedTable(Arc<Mutex<Option<i64>>>);

impl ListenedTable {
    pub(super) fn is(&self, table: i64) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(table)
    }

    fn set(&self, table: Option<i64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = table;
    }
}

/// The notifications of one server.
#[derive(Debug)]
pub(super) struct Notifications {
    sessions: Arc<Sessions>,
    prefix: Prefix,
    patience: Duration,
    listened: ListenedTable,
}

/// A connection, and the table that it listens to.
pub(super) struct Connection {
    listener: PgListener,
    table: Option<i64>,
}

impl Notifications {
    pub(super) fn new(
        sessions: Arc<Sessions>,
        prefix: Prefix,
        context: &Context,
        listened: ListenedTable,
    ) -> Notifications {
        Notifications { sessions, prefix, patience: context.patience, listened }
    }

    /// Opens a connection of its own: sqlx passes notifications only to a listener, and creates a listener only from a
    /// pool. Returns whether the session is our own.
    async fn connect(&self, options: PgConnectOptions, mark: &str) -> sqlx::Result<(PgListener, bool)> {
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(self.patience);
        let pool = pool.max_lifetime(None).idle_timeout(None).test_before_acquire(false);
        let mut listener = PgListener::connect_with(&pool.connect_lazy_with(options)).await?;
        listener.eager_reconnect(false);
        let is_own = self.sessions.is_own(&mut listener, mark).await?;
        Ok((listener, is_own))
    }

    /// Listens to the table of locks, unless this connection does already.
    async fn listen(&self, connection: &mut Connection) -> Result<Missed, SourceError> {
        let table = self.table(&mut connection.listener).await?;
        if connection.table == Some(table) {
            return Ok(Missed::Nothing);
        }
        if connection.table.is_some() {
            connection.listener.unlisten_all().await.map_err(broken)?;
        }
        connection.listener.listen(&payload::channel(table)).await.map_err(broken)?;
        self.listened.set(Some(table));
        Ok(match connection.table.replace(table) {
            Some(_) => Missed::Possibly,
            None => Missed::Nothing,
        })
    }

    /// Reads the number of the table on this connection, because a renewal may need the other ones.
    async fn table(&self, listener: &mut PgListener) -> Result<i64, SourceError> {
        let question = sqlx::raw_sql(AssertSqlSafe(self.sessions.which_table()));
        let row = listener.fetch_one(question).await.map_err(broken)?;
        let table: Option<i64> = row.try_get(0).map_err(broken)?;
        table.ok_or_else(|| SourceError::Broken("the table of locks is gone".to_owned()))
    }
}

#[async_trait]
impl Source for Notifications {
    type Topic = LocksTable;
    type Connection = Connection;

    fn audience(_: &LocksTable) -> Audience<'_> {
        Audience::All
    }

    async fn open(&self) -> Result<Connection, SourceError> {
        let pooled = || SourceError::Refused(POOLED.to_owned());
        let (options, Some(mark)) = self.sessions.greeting(LockWait::Bounded) else { return Err(pooled()) };
        match self.connect(options, &mark).await {
            Ok((listener, true)) => Ok(Connection { listener, table: None }),
            Err(e) if !errors::is_unknown_parameter(&e) => Err(broken(e)),
            _ => {
                self.sessions.learn_pooled();
                Err(pooled())
            }
        }
    }

    async fn subscribe(&self, connection: &mut Connection, _: &[LocksTable]) -> Result<Missed, SourceError> {
        self.listen(connection).await
    }

    async fn unsubscribe(&self, connection: &mut Connection, _: &[LocksTable]) -> Result<(), SourceError> {
        self.listened.set(None);
        connection.table = None;
        connection.listener.unlisten_all().await.map_err(broken)
    }

    async fn next(&self, connection: &mut Connection) -> Result<Notice, SourceError> {
        let Some(notification) = connection.listener.try_recv().await.map_err(broken)? else {
            return Err(SourceError::Broken("the connection for wake-ups broke".to_owned()));
        };
        let payload = notification.payload();
        Ok(match (payload::revoked(payload), payload::read(payload, &self.prefix)) {
            (Some(owner), _) => Notice::Revoked(owner.to_owned()),
            (None, Some((name, Some(heard)))) => Notice::ReleasedAfter(name, heard),
            (None, Some((name, None))) => Notice::Released(name),
            (None, None) => Notice::Other,
        })
    }

    /// Also finds a table that was created anew. Without this, claims would wait for ever for the old one.
    async fn check(&self, connection: &mut Connection) -> Result<Missed, SourceError> {
        self.listen(connection).await
    }
}

fn broken(error: sqlx::Error) -> SourceError {
    SourceError::Broken(errors::connecting(error).message().to_owned())
}

pub(super) const POOLED: &str = "a pooler lends the server's sessions for each transaction: no notification of a \
    release comes through it, so waiters look again and again";
