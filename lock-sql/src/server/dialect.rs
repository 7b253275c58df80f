//! What the pool needs of a database server's dialect.

use std::fmt;

use lock_core::{Error, Result};

/// How to connect to one kind of database server, and to run a statement there.
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    type Connection: fmt::Debug + Send + 'static;
    /// A statement with its values.
    type Statement: Send + 'static;
    type Row: Send + 'static;

    /// Connects, sets the session up, and asks for the server's time. To be bounded by the caller.
    fn connect(&self) -> impl Future<Output = Result<Opened<Self::Connection>>> + Send;

    /// Runs a statement to its last step: one that writes takes effect behind its last row, and only then is known to
    /// have.
    fn run(
        connection: &mut Self::Connection,
        statement: Self::Statement,
    ) -> impl Future<Output = sqlx::Result<Answer<Self::Row>>> + Send;

    /// What an error of a running statement means.
    fn trouble(error: sqlx::Error) -> Trouble;
}

/// A connection that is ready.
#[derive(Debug)]
pub(crate) struct Opened<C> {
    pub(crate) connection: C,
    /// What its server's clock said last, in microseconds.
    pub(crate) now: i64,
}

/// What a statement answered.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    pub(crate) rows: Vec<R>,
    /// What `LAST_INSERT_ID(…)` was set to, on servers that have it.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "MySQL's dialect asks for it"))]
    pub(crate) last_insert_id: u64,
    /// The server's time in microseconds, where the answer holds it.
    pub(crate) now: Option<i64>,
}

/// What an error of a running statement means.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server undid it because others were in the way: it may be asked again at once.
    Undone(Error),
    /// The server refused it; the connection is as good as before.
    Refused(Error),
    /// The connection is of no more use, and those opened before it hardly are.
    Broken(Error),
}
