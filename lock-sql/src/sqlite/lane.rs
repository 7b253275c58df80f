//! A lane: one connection of SQLite, on which calls go one at a time.
//!
//! sqlx gives each connection a thread, and a statement whose future is dropped goes on there. So calls are detached:
//! a connection whose call came to no answer is not used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Done, Error, Result, detached};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Executor, Row};
use tokio::sync::Mutex;

use super::errors::{self, Obstacle};
use super::file::{self, File, Identity};
use super::schema;
use super::time::{Now, Time, nanoseconds};

/// A statement with its values.
pub(crate) type Statement = Query<'static, sqlx::Sqlite, SqliteArguments>;

/// How a database is reached.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) options: SqliteConnectOptions,
    pub(crate) file: File,
    pub(crate) time: Time,
}

/// One connection, opened when it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    route: Arc<Route>,
    link: Arc<Mutex<Option<Link>>>,
}

/// Whether a statement may take effect when its call is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It is undone.
    Undone,
    /// It is as welcome as before.
    Welcome,
}

/// What a statement answered, and the moment that stood in it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<SqliteRow>,
    pub(crate) now: Now,
}

impl Lane {
    pub(crate) fn new(route: Arc<Route>) -> Lane {
        Lane { route, link: Arc::default() }
    }

    /// Opens the connection, as a client does that is just being opened: what is missing is the user's to mend.
    pub(crate) async fn open(&self, call: &Call) -> Result<()> {
        let (lane, own) = (self.clone(), call.clone());
        detached(call.clock(), call.left(), async move {
            let mut slot = lane.link.lock().await;
            *slot = Some(Link::open(&lane.route, &own).await?);
            Ok(())
        })
        .await
    }

    /// Runs the statement that `make` makes of the moment, which is read right before it starts.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        late: Late,
        make: impl Fn(Now) -> Statement + Send + 'static,
    ) -> Result<Answer> {
        let (lane, own) = (self.clone(), call.clone());
        detached(call.clock(), call.left(), async move {
            let mut slot = lane.link.lock().await;
            let mut link = match slot.take().filter(|link| link.leads_to(&lane.route.file)) {
                Some(link) => link,
                None => Link::open(&lane.route, &own).await.map_err(file::for_now)?,
            };
            let answer = link.ask(&lane.route, &own, late, make).await;
            if answer.as_ref().map_or_else(|failure| failure.spares_connection, |_| true) {
                *slot = Some(link);
            }
            answer.map_err(|failure| failure.error)
        })
        .await
    }
}

/// Why a statement had no answer.
struct Failure {
    error: Error,
    spares_connection: bool,
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        Failure { spares_connection: errors::spares_connection(&error), error: errors::asking(error) }
    }
}

/// An open connection.
#[derive(Debug)]
struct Link {
    connection: SqliteConnection,
    file: Identity,
    /// When the running statement may take effect at the latest, on the shared clock.
    deadline: Arc<AtomicI64>,
}

impl Link {
    async fn open(route: &Route, call: &Call) -> Result<Link> {
        let options = route
            .options
            .clone()
            .filename(route.file.path())
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(ONE_TRY);
        let mut connection = connect(&options, route, call).await?;
        let gone = |e: std::io::Error| {
            Error::unavailable(Done::No, "the file was deleted while it was being opened").with_source(e)
        };
        let file = route.file.identity().map_err(gone)?;
        let deadline = Arc::new(AtomicI64::new(i64::MAX));
        let (limit, time) = (deadline.clone(), route.time);
        // The last word before a statement takes effect, after every wait for other processes.
        let in_time = move || time.shared() <= limit.load(Ordering::Acquire);
        connection.lock_handle().await.map_err(errors::connecting)?.set_commit_hook(in_time);
        Ok(Link { connection, file, deadline })
    }

    /// A file that was deleted or replaced takes writes as before, but nobody else sees them.
    fn leads_to(&self, file: &File) -> bool {
        file.identity().is_ok_and(|there| there == self.file)
    }

    /// Asks until no other process is in the way, or the call is over. Each try has its own moment: a lease is counted
    /// from right before the statement.
    async fn ask(
        &mut self,
        route: &Route,
        call: &Call,
        late: Late,
        make: impl Fn(Now) -> Statement,
    ) -> Result<Answer, Failure> {
        loop {
            let (now, left) = (route.time.now(), call.left());
            if left.is_zero() {
                let error = Error::unavailable(Done::No, "the calls before it took all of its time");
                return Err(Failure { error, spares_connection: true });
            }
            let limit = match late {
                Late::Undone => now.shared.saturating_add(nanoseconds(left)),
                Late::Welcome => i64::MAX,
            };
            self.deadline.store(limit, Ordering::Release);
            // To its last step: a statement that writes takes effect behind its last row, and only then is known to
            // have. (sqlx' `fetch_optional` stops at the row, and hears of no error behind it.)
            match make(now).fetch_all(&mut self.connection).await {
                Ok(rows) => return Ok(Answer { rows, now }),
                Err(e) if errors::is_busy(&e) && call.left() > ROOM => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// How long SQLite waits by itself for other processes. Its pauses grow to 100 ms, which on a busy file is too few tries
/// for a call of 100 ms; so it tries often for a short while, and is asked again.
const ONE_TRY: Duration = Duration::from_millis(8);

/// What a call must have left for another try: the try, and as much again to hear of it. Of one that is cut short in its
/// last moment nobody could say that it did nothing.
const ROOM: Duration = Duration::from_millis(16);

/// Processes that come at the same time stand in each other's way while the first one sets the file up, and SQLite
/// doesn't wait then.
async fn connect(options: &SqliteConnectOptions, route: &Route, call: &Call) -> Result<SqliteConnection> {
    loop {
        match set_up(options).await {
            Ok(connection) => return Ok(connection),
            Err(Obstacle::Sqlite(e)) if errors::is_busy(&e) && call.left() > ROOM => {
                call.clock().sleep(BETWEEN_TRIES).await;
            }
            Err(Obstacle::Sqlite(e)) if errors::is_cant_open(&e) => {
                return Err(route.file.obstacle().unwrap_or_else(|| errors::connecting(e)));
            }
            Err(Obstacle::Sqlite(e)) => return Err(errors::connecting(e)),
            Err(Obstacle::Found(e)) => return Err(e),
        }
    }
}

const BETWEEN_TRIES: Duration = Duration::from_millis(3);

/// Opens, and sees to it that the file has a log and our table.
async fn set_up(options: &SqliteConnectOptions) -> Result<SqliteConnection, Obstacle> {
    let mut connection = options.connect().await?;
    let mode: String = connection.fetch_one("PRAGMA journal_mode").await?.try_get(0)?;
    if mode != "wal" {
        return Err(Error::unsupported(format!(
            "SQLite can't keep a write-ahead log for this file (its journal mode stays {mode:?}); a file on a local disk can"
        ))
        .into());
    }
    schema::prepare(&mut connection).await?;
    Ok(connection)
}
