//! A connection that is opened once for all calls that need it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::Call;
use crate::clock::Instant;
use crate::error::{Effect, Error, Result};

/// Opens the connections of a [`SharedConnection`].
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// A connection, with all that has to be replaced together with it, such as a
    /// [`ServerClock`](super::ServerClock).
    type Connection: Send + Sync + 'static;

    /// Opens a connection, for `call` and for all calls that wait for it.
    ///
    /// It runs to its end in a task of its own, even if `call` is over before. It has to end by itself, at the end of
    /// `call` or after one patience, because no other connection is opened before.
    ///
    /// # Errors
    ///
    /// An `Unavailable` has [`Effect::NotApplied`]: nothing was asked of the server yet.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the slot runs it to completion, unless the runtime ends.
    async fn connect(&self, call: &Call) -> Result<Self::Connection>;

    /// Returns whether the connection can be used, as far as that is known without a request.
    fn is_usable(&self, connection: &Self::Connection) -> bool;

    /// Ends a connection that had become unusable, after another one has taken its place. By default, drops it.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the slot runs it to completion, unless the runtime ends.
    async fn discard(&self, _connection: Arc<Self::Connection>) {}
}

/// The place of one connection, which all tasks of a client use.
///
/// The first call that finds the place empty opens the connection, and other calls wait for that. No call waits longer
/// than its own time. If the opening takes longer than all of them wait, the calls after them have the connection. If the
/// server can't be reached, the calls that wait, and those of the next 5 ms, have the same answer: a server that is down is
/// not asked for a connection by each call.
///
/// A task gives up the very connection that it found broken, and not the one that has taken its place in the meantime.
pub struct SharedConnection<C: Connect>(Arc<Shared<C>>);

struct Shared<C: Connect> {
    connector: C,
    current: Mutex<Option<Arc<C::Connection>>>,
    /// Held while a connection is opened. It keeps how the last opening failed.
    turn: Arc<tokio::sync::Mutex<Option<Failure>>>,
}

/// An opening that has failed, because the server could not be reached or could not answer.
struct Failure {
    at: Instant,
    error: Error,
    /// The time that the server had for it, if the call for which it began was over before.
    out_of_time_after: Option<Duration>,
}

/// For how long a failed opening is the answer to further calls. Less than the shortest pause after an error, so that a
/// call that is repeated opens a connection.
const FAILURE_COUNTS: Duration = Duration::from_millis(5);

impl<C: Connect> SharedConnection<C> {
    /// Makes an empty place. Opens nothing.
    pub fn new(connector: C) -> SharedConnection<C> {
        SharedConnection(Arc::new(Shared { connector, current: Mutex::default(), turn: Arc::default() }))
    }

    /// Returns what opens the connections.
    pub fn connector(&self) -> &C {
        &self.0.connector
    }

    /// Returns the connection if there is one that can be used. Opens none.
    pub fn usable(&self) -> Option<Arc<C::Connection>> {
        self.0.current().clone().filter(|connection| self.0.connector.is_usable(connection))
    }

    /// Returns the connection. Opens one if there is none that can be used.
    ///
    /// # Errors
    ///
    /// `Unavailable` with [`Effect::NotApplied`] if the call is over before the connection is open; otherwise the error
    /// of [`Connect::connect`]. An `Unavailable` is also the error of the calls that waited for this opening, and of those
    /// of the next 5 ms, unless they may take longer than the call that ran out of time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an opening that has begun goes on.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn get(&self, call: &Call) -> Result<Arc<C::Connection>> {
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let out_of_time = || call.out_of_time(Effect::NotApplied);
        if call.is_over() {
            return Err(out_of_time());
        }
        // Boxed, so the future of every call does not reserve space for what almost none needs.
        Box::pin(call.within(self.open(call))).await.unwrap_or_else(|| Err(out_of_time()))
    }

    /// Empties the place if this connection is in it. Returns whether it was.
    pub fn give_up(&self, connection: &Arc<C::Connection>) -> bool {
        self.0.current().take_if(|current| Arc::ptr_eq(current, connection)).is_some()
    }

    async fn open(&self, call: &Call) -> Result<Arc<C::Connection>> {
        let mut turn = self.0.turn.clone().lock_owned().await;
        // Another call opened it while this one waited for its turn.
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        if let Some(failure) = turn.as_ref().filter(|failure| failure.answers(call)) {
            return Err(failure.error.repeated());
        }
        let (shared, call) = (self.0.clone(), call.clone());
        let opening = tokio::spawn(async move {
            let began = call.clock().now();
            let opened = shared.open(&call).await;
            *turn = opened.as_ref().err().and_then(|error| Failure::of(error, began, &call));
            opened
        });
        opening.await.unwrap_or_else(|e| {
            Err(Error::unavailable(Effect::NotApplied, "connecting ended early").with_source(e))
        })
    }
}

impl<C: Connect> Shared<C> {
    /// Opens a connection, and puts it into the place.
    async fn open(&self, call: &Call) -> Result<Arc<C::Connection>> {
        let opened = Arc::new(self.connector.connect(call).await?);
        let unusable = self.current().replace(opened.clone());
        if let Some(unusable) = unusable {
            self.connector.discard(unusable).await;
        }
        Ok(opened)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<C::Connection>>> {
        // Nothing that can panic runs under this lock.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failure {
    /// `None` if the same call can't succeed later: each call is told so by the server itself.
    fn of(error: &Error, began: Instant, call: &Call) -> Option<Failure> {
        let at = call.clock().now();
        let out_of_time_after = call.is_over().then(|| at.since(began));
        error.is_transient().then(|| Failure { at, error: error.repeated(), out_of_time_after })
    }

    /// Returns whether it is what this call would be told, too. A call that may take longer than the one that ran out of
    /// time opens a connection itself.
    fn answers(&self, call: &Call) -> bool {
        let patience = call.ends().since(call.began());
        call.clock().now() < self.at + FAILURE_COUNTS
            && self.out_of_time_after.is_none_or(|after| patience <= after)
    }
}

impl<C: Connect> fmt::Debug for SharedConnection<C> {
    /// Shows only whether there is a connection: what opens it may know a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedConnection")
            .field("is_connected", &self.0.current().is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
