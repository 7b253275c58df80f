//! Requests to SQL servers from threads without async.

use std::future::Future;
use std::io;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{ColumnIndex, Connection, Database, Decode, Executor, IntoArguments, Type};

/// The user of the servers that are started here. It has all rights and needs no password on this machine.
pub(super) const USER: &str = "lock";
/// The database that their URLs name.
pub(super) const DATABASE: &str = "locks";
/// The longest time that a request may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Waits for the answer for a second at most. Runs on a new thread, because the current thread may belong to a runtime.
pub(super) fn ask<T: Send>(question: impl Future<Output = sqlx::Result<T>> + Send) -> io::Result<T> {
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {LIMIT:?}"));
        let answer = runtime.block_on(async { tokio::time::timeout(LIMIT, question).await });
        // The errors name users and databases, but never a password.
        answer.map_err(late)?.map_err(io::Error::other)
    };
    thread::scope(|scope| scope.spawn(ask).join()).unwrap_or_else(|_| Err(io::Error::other("it panicked")))
}

/// Returns the one value that a server answers to a statement, on a new connection.
pub(super) fn value<D: Database, T>(url: &str, statement: &'static str) -> io::Result<T>
where
    T: for<'r> Decode<'r, D> + Type<D> + Send + Unpin,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    usize: ColumnIndex<D::Row>,
{
    ask(async {
        let mut connection = D::Connection::connect(url).await?;
        // The connection is only dropped: closing it would take time, and the request may be for the time.
        sqlx::query_scalar(statement).fetch_one(&mut connection).await
    })
}

/// Returns a clock's time, from microseconds since 1970.
pub(super) fn time(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}
