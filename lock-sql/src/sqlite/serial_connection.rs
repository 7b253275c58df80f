//! One SQLite connection, on which calls run one at a time.
//!
//! sqlx gives each connection a thread, and a statement whose future is dropped continues there. So calls run in a task,
//! and a connection on which a call got no answer is not used again.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::poll_immediate;
use lock_core::toolkit::{Call, CurrentInfo, detached};
use lock_core::{Effect, Error, Result};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteLockingMode, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use tokio::sync::Mutex;

use super::call_queue::CallQueue;
use super::errors::{self, Obstacle};
use super::file::{self, File};
use super::identity::Identity;
use super::in_use::InUse;
use super::time::{Now, Time, nanoseconds};
use super::{connections, log, schema};

/// A statement with its values.
pub(crate) type Statement = Query<'static, sqlx::Sqlite, SqliteArguments>;

/// The parameters of a connection to a database.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) options: SqliteConnectOptions,
    pub(crate) file: File,
    pub(crate) time: Time,
    pub(crate) info: Arc<CurrentInfo>,
}

impl Route {
    /// Returns the user's options with our own settings.
    fn options(&self) -> SqliteConnectOptions {
        self.options
            .clone()
            .filename(self.file.path())
            .journal_mode(SqliteJournalMode::Wal)
            .locking_mode(SqliteLockingMode::Normal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
    }
}

impl fmt::Debug for Route {
    /// Without the options, which would show the key of an encrypted file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("file", &self.file).finish_non_exhaustive()
    }
}

/// One connection, opened when it is needed.
#[derive(Clone, Debug)]
pub(crate) struct SerialConnection {
    route: Arc<Route>,
    link: Arc<IdleLink>,
    queue: Arc<CallQueue>,
}

/// A connection while no call uses it, or none.
pub(crate) type IdleLink = Mutex<Option<Link>>;

/// The writes of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Nothing,
    /// A write that has to take effect before its call is over. Otherwise it is undone.
    InTime,
    /// A write that may also take effect later, because it does no harm then.
    AlsoLate,
}

/// The answer to a statement, and the moment that the statement contained.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<SqliteRow>,
    pub(crate) now: Now,
}

impl SerialConnection {
    pub(crate) fn new(route: Arc<Route>) -> SerialConnection {
        let link = Arc::default();
        connections::register(&route.file, &link);
        let queue = Arc::new(CallQueue::new(route.clone(), Arc::clone(&link)));
        SerialConnection { route, link, queue }
    }

    /// Opens the connection of a client that is being opened, unless it is open. Its errors are not converted to passing
    /// ones, because the user has to create what is missing.
    pub(crate) async fn open(&self, call: &Call) -> Result<()> {
        let (this, own) = (self.clone(), call.clone());
        detached(call.clock(), call.left(), async move {
            let mut idle = this.link.lock().await;
            if idle.is_none() {
                *idle = Some(Link::open(&this.route, &own).await?);
            }
            Ok(())
        })
        .await
    }

    /// Returns whether no call uses the connection or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Runs the statement that `make` builds for the moment, which is read right before the statement starts.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        writes: Writes,
        make: impl Fn(Now) -> Statement + Send + Sync + 'static,
    ) -> Result<Answer> {
        self.queue.run(call, writes, make).await
    }
}

/// Why a statement got no answer.
enum Failure {
    /// The connection can be used again.
    Spared(Error),
    /// The connection can't be used any more.
    Broken(Error),
    /// The connection no longer leads to the file. The statement has not taken effect in the one that is there.
    Stale,
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        match errors::spares_connection(&error) {
            true => Failure::Spared(errors::asking(error)),
            false => Failure::Broken(errors::asking(error)),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Link {
    connection: SqliteConnection,
    files: Identity,
    /// Ends after the connection, which writes to its files until it is closed.
    in_use: Arc<InUse>,
    /// Until when the running statement may take effect, on the shared clock.
    deadline: Arc<AtomicI64>,
}

impl Link {
    /// Opens a connection, and repeats that until the file that SQLite has opened is the one at the path, and no other
    /// connection uses other files. A file that is created by this is opened a second time: before it existed, it could
    /// not be known which file it would be.
    async fn open(route: &Route, call: &Call) -> Result<Link> {
        let _turn = connections::turn(&route.file, call).await?;
        loop {
            connections::close_stale(&route.file).await;
            route.file.must_have_one_path()?;
            let before = route.file.seen();
            let obstacle = match InUse::enter(&route.file)? {
                Err(others) => others,
                Ok(in_use) => {
                    let connection = connect(&route.options(), route, call).await?;
                    let link = Link::on(connection, route, in_use).await?;
                    let agrees = match link.files.is_of(before) {
                        true => link.in_use.agrees_on(&link.files),
                        false => Ok(false),
                    };
                    if let Ok(true) = agrees {
                        route.info.learn_server(link.files.of_all(route.time.boot()).as_deref());
                        return Ok(link);
                    }
                    link.close().await;
                    agrees.err().unwrap_or_else(|| replaced(&route.file))
                }
            };
            if call.left() <= MIN_TIME_FOR_RETRY {
                return Err(obstacle);
            }
            call.clock().sleep(BETWEEN_TRIES).await;
        }
    }

    async fn on(mut connection: SqliteConnection, route: &Route, in_use: InUse) -> Result<Link> {
        let (deadline, in_use) = (Arc::new(AtomicI64::new(i64::MAX)), Arc::new(in_use));
        match Link::prepare(&mut connection, route, deadline.clone(), in_use.clone()).await {
            Ok(files) => Ok(Link { connection, files, in_use, deadline }),
            Err(e) => Err(refused(connection, e).await),
        }
    }

    /// Returns which files the connection leads to, if it may be used. After the time in `limit`, no statement takes
    /// effect on it.
    async fn prepare(
        connection: &mut SqliteConnection,
        route: &Route,
        limit: Arc<AtomicI64>,
        in_use: Arc<InUse>,
    ) -> Result<Identity> {
        let files = route.file.identity()?;
        route.file.must_share_the_index()?;
        let (time, file) = (route.time, route.file.clone());
        // The last checks before a statement takes effect, after every wait for other processes.
        let may_commit = move || {
            // A connection that is dropped is closed by its own thread, with this function. Its files are in use until then.
            let _in_use = &in_use;
            file.has(&files) && time.shared() <= limit.load(Ordering::Acquire)
        };
        connection.lock_handle().await.map_err(errors::connecting)?.set_commit_hook(may_commit);
        Ok(files)
    }

    /// Returns whether the connection leads to the files that are there now.
    pub(crate) fn leads_to(&self, file: &File) -> bool {
        file.has(&self.files)
    }

    /// Closes the connection, and waits for the end of that. No call could return its error.
    pub(crate) async fn close(self) {
        self.connection.close().await.ok();
        drop(self.in_use);
    }

    /// Asks on the connection in `idle`, and opens it if there is none. The connection stays there only if it can be
    /// used again: it is not there if this future is dropped.
    pub(super) async fn ask_on(
        idle: &mut Option<Link>,
        route: &Route,
        call: &Call,
        writes: Writes,
        make: &(impl Fn(Now) -> Statement + Sync),
    ) -> Result<Answer> {
        loop {
            let mut link = match idle.take() {
                Some(link) => link,
                None => Link::open(route, call).await.map_err(file::for_now)?,
            };
            let error = match link.ask(route, call, writes, make).await {
                Ok(answer) => {
                    *idle = Some(link);
                    return Ok(answer);
                }
                Err(Failure::Spared(error)) => {
                    *idle = Some(link);
                    return Err(error);
                }
                Err(Failure::Broken(error)) => Some(error),
                Err(Failure::Stale) => None,
            };
            link.close().await;
            if let Some(error) = error {
                return Err(error);
            }
        }
    }

    /// Repeats the statement until no other process is in the way, or the call is over. Each try reads the time again,
    /// so that a lease is counted from right before the statement.
    ///
    /// What a statement writes takes effect only in the file that is there at that moment. For a statement that writes
    /// nothing, the file is checked while the connection's thread runs it.
    async fn ask(
        &mut self,
        route: &Route,
        call: &Call,
        writes: Writes,
        make: impl Fn(Now) -> Statement,
    ) -> Result<Answer, Failure> {
        loop {
            let (now, left) = (route.time.now(), call.left());
            if left.is_zero() {
                let error = Error::unavailable(Effect::NotApplied, "no time was left after earlier calls");
                return Err(Failure::Spared(error));
            }
            let limit = match writes {
                Writes::InTime => now.shared.saturating_add(nanoseconds(left)),
                Writes::Nothing | Writes::AlsoLate => i64::MAX,
            };
            self.deadline.store(limit, Ordering::Release);
            // Reads the answer to its end: a statement that writes takes effect after its last row, and only then is
            // known to have taken effect. (sqlx' `fetch_optional` stops at the row, and doesn't report an error after
            // it.)
            let asking = make(now).fetch_all(&mut self.connection);
            let outcome = match writes {
                Writes::Nothing => beside(asking, || route.file.has(&self.files)).await,
                Writes::InTime | Writes::AlsoLate => (asking.await, true),
            };
            match outcome {
                (_, false) => return Err(Failure::Stale),
                (Ok(rows), _) => return Ok(Answer { rows, now }),
                (Err(e), _) if errors::is_busy(&e) && call.left() > MIN_TIME_FOR_RETRY => {}
                (Err(_), _) if !self.leads_to(&route.file) => return Err(Failure::Stale),
                (Err(e), _) => return Err(e.into()),
            }
        }
    }
}

/// Begins with `asking`, checks something while its thread works, and returns both outcomes.
async fn beside<F: Future, T>(asking: F, check: impl FnOnce() -> T) -> (F::Output, T) {
    let mut asking = pin!(asking);
    let (answered, checked) = (poll_immediate(asking.as_mut()).await, check());
    match answered {
        Some(answer) => (answer, checked),
        None => (asking.await, checked),
    }
}

/// The time for which SQLite waits by itself for other processes. The pauses between its tries grow to 100 ms, which on
/// a busy file is too few tries for a call of 100 ms. So it tries often for a short while, and the statement is then
/// repeated.
const BUSY_TIMEOUT: Duration = Duration::from_millis(8);

/// The time that a call must have left for another try: for the try itself, and as much again to receive its result. If
/// a try is cut short at its last moment, it is not known whether it did nothing.
const MIN_TIME_FOR_RETRY: Duration = Duration::from_millis(16);

/// Opens a connection and sets the file up. Processes that come at the same time are in each other's way while the
/// first one sets the file up, and SQLite doesn't wait then; so this waits and tries again.
async fn connect(options: &SqliteConnectOptions, route: &Route, call: &Call) -> Result<SqliteConnection> {
    loop {
        match set_up(options, &route.file).await {
            Ok(connection) => return Ok(connection),
            Err(obstacle) if obstacle.is_busy() && call.left() > MIN_TIME_FOR_RETRY => {
                call.clock().sleep(BETWEEN_TRIES).await;
            }
            Err(Obstacle::Sqlite(e)) if errors::is_cant_open(&e) => {
                return Err(route.file.obstacle().unwrap_or_else(|| errors::connecting(e)));
            }
            Err(Obstacle::Sqlite(e)) if errors::is_short_read(&e) => {
                return Err(log::obstacle(&route.file).unwrap_or_else(|| errors::connecting(e)));
            }
            Err(Obstacle::Sqlite(e)) => return Err(errors::connecting(e)),
            Err(Obstacle::Found(e)) => return Err(e),
            Err(Obstacle::Busy) => {
                return Err(Error::unavailable(
                    Effect::NotApplied,
                    "other processes were setting the file up all the time",
                ));
            }
        }
    }
}

const BETWEEN_TRIES: Duration = Duration::from_millis(3);

fn replaced(file: &File) -> Error {
    Error::unavailable(
        Effect::NotApplied,
        format!("{} was made or replaced while it was opened", file.path().display()),
    )
}

/// Opens a connection, and ensures that the file has a log and our table.
async fn set_up(options: &SqliteConnectOptions, file: &File) -> Result<SqliteConnection, Obstacle> {
    let mut connection = options.connect().await?;
    match prepare(&mut connection, file).await {
        Ok(()) => Ok(connection),
        Err(obstacle) => Err(refused(connection, obstacle).await),
    }
}

/// Closes a connection that can't be used, before another one is opened. A dropped connection is closed by its own
/// thread, later, and until then it keeps the index for which it was refused.
async fn refused<E>(connection: SqliteConnection, why: E) -> E {
    connection.close().await.ok();
    why
}

async fn prepare(connection: &mut SqliteConnection, file: &File) -> Result<(), Obstacle> {
    let mode: String = connection.fetch_one("PRAGMA journal_mode").await?.try_get(0)?;
    if mode != "wal" {
        return Err(Error::unsupported(format!(
            "SQLite can't keep a write-ahead log for this file (its journal mode stays {mode:?}); a file on a local disk can"
        ))
        .into());
    }
    log::must_be_of_its_index(connection, file).await?;
    schema::prepare(connection).await
}
