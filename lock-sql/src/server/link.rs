//! One connection together with its estimate of the server clock. They are replaced together, because an estimate made
//! on another connection may be of another server.

use lock_core::toolkit::{Call, Drift, ServerClock};
use lock_core::{Clock, Effect, Error, Instant};

use super::dialect::{Answer, Dialect, Opened, Trouble};
use super::request_queue::LockWait;

/// An open connection.
#[derive(Debug)]
pub(super) struct Link<D: Dialect> {
    connection: D::Connection,
    server: ServerClock,
    pub(super) lock_wait: LockWait,
    /// When the server last answered on it.
    pub(super) answered: Instant,
}

/// The facts about the moment at which a statement is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The end of the call's patience on the server clock, or a little earlier.
    pub(crate) deadline: i64,
}

/// The outcome of a statement.
#[derive(Debug)]
pub(super) enum Ran<R> {
    Answered(Answer<R>),
    /// Not done, because other transactions were in the way.
    Undone(Error),
    /// Not done, or not known to be done. The connection can still be used.
    Failed(Error),
    /// Not done, or not known to be done. The connection can't be used any more.
    Broken(Error),
}

impl<D: Dialect> Link<D> {
    pub(super) fn new(opened: Opened<D::Connection>, lock_wait: LockWait, clock: &Clock) -> Link<D> {
        let answered = clock.now();
        let server = ServerClock::new(opened.now, answered);
        Link { connection: opened.connection, server, lock_wait, answered }
    }

    /// Returns the drift of the server clock since the connection was opened.
    pub(super) fn drift(&self) -> Drift {
        self.server.drift()
    }

    /// Runs the statement that `make` builds for the moment of sending.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        make: &(impl Fn(Moment) -> D::Statement + Sync + ?Sized),
    ) -> Ran<D::Row> {
        if call.left().is_zero() {
            let message = "no time was left to send the statement";
            return Ran::Failed(Error::unavailable(Effect::NotApplied, message));
        }
        let moment = Moment { deadline: self.server.deadline(call) };
        match D::run(&mut self.connection, make(moment)).await {
            Ok(answer) => {
                self.record_answer(call.clock(), answer.now);
                Ran::Answered(answer)
            }
            Err(error) => match D::trouble(error) {
                Trouble::Undone(error) => Ran::Undone(error),
                Trouble::Refused(error) => Ran::Failed(error),
                Trouble::Broken(error) => Ran::Broken(error),
            },
        }
    }

    /// Records that an answer has just arrived, and the server's time if the answer contained it.
    fn record_answer(&mut self, clock: &Clock, now: Option<i64>) {
        self.answered = clock.now();
        if let Some(now) = now {
            self.server.hear(now, self.answered);
        }
    }
}
