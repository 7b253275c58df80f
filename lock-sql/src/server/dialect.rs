//! The operations that the pool needs from the dialect of a database server.

use std::fmt;

use lock_core::{Error, Result};

use super::request_queue::LockWait;

/// The dialect of one kind of database server: connecting to it, and running a statement there.
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    type Connection: fmt::Debug + Send + 'static;
    /// A statement with its values.
    type Statement: Send + 'static;
    type Row: Send + 'static;

    /// Connects, sets up the session, and reads the server's time. The caller limits the time that this takes.
    fn connect(&self, lock_wait: LockWait) -> impl Future<Output = Result<Opened<Self::Connection>>> + Send;

    /// Runs a statement and reads its answer to the end. A statement that writes takes effect after its last row; only
    /// then is it known to have taken effect. It waits for rows that others have locked as the connection was told to.
    fn run(
        connection: &mut Self::Connection,
        statement: Self::Statement,
    ) -> impl Future<Output = sqlx::Result<Answer<Self::Row>>> + Send;

    /// Returns the meaning of an error of a running statement.
    fn trouble(error: sqlx::Error) -> Trouble;
}

/// A connection that is ready.
#[derive(Debug)]
pub(crate) struct Opened<C> {
    pub(crate) connection: C,
    /// The last reading of the server clock, in microseconds.
    pub(crate) now: i64,
}

/// The answer to a statement.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    pub(crate) rows: Vec<R>,
    /// The value that `LAST_INSERT_ID(…)` was set to, on servers that have it.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL's dialect reads it"))]
    pub(crate) last_insert_id: u64,
    /// The server's time in microseconds, if the answer contains it.
    pub(crate) now: Option<i64>,
}

impl<R> Default for Answer<R> {
    fn default() -> Answer<R> {
        Answer { rows: Vec::new(), last_insert_id: 0, now: None }
    }
}

/// The meaning of an error of a running statement.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server undid the statement because other transactions were in the way. It may be repeated.
    Undone(Error),
    /// The server refused the statement. The connection can still be used.
    Refused(Error),
    /// The connection can't be used any more, and the connections opened before it probably can't either.
    Broken(Error),
}
