//! One connection together with its estimate of the server clock. They are replaced together, because an estimate made
//! on another connection may be of another server.

use lock_core::driver::{Call, Drift, ServerClock};
use lock_core::{Clock, Effect, Error, Instant};

use super::dialect::{Answer, Dialect, Opened, Trouble};

/// An open connection.
#[derive(Debug)]
pub(super) struct Link<D: Dialect> {
    connection: D::Connection,
    server: ServerClock,
    /// When the server last answered on it.
    pub(super) answered: Instant,
}

/// What a statement must know about the moment at which it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The end of the call's patience on the server clock, or a little earlier.
    pub(crate) deadline: i64,
}

/// The outcome of a statement.
#[derive(Debug)]
pub(super) enum Ran<R> {
    Answered(Answer<R>),
    /// Not done, or not known to be done. The connection can still be used.
    Failed(Error),
    /// Not done, or not known to be done. The connection can't be used any more.
    Broken(Error),
}

impl<D: Dialect> Link<D> {
    pub(super) fn new(opened: Opened<D::Connection>, clock: &Clock) -> Link<D> {
        let answered = clock.now();
        let server = ServerClock::new(opened.now, answered);
        Link { connection: opened.connection, server, answered }
    }

    /// How the server clock has drifted since the connection was opened.
    pub(super) fn drift(&self) -> Drift {
        self.server.drift()
    }

    /// Runs the statement that `make` builds for the moment of sending. Repeats it if the server undid it, until the
    /// call is over.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        make: &(impl Fn(Moment) -> D::Statement + Sync),
    ) -> Ran<D::Row> {
        let mut undone = None;
        while !call.left().is_zero() {
            let moment = Moment { deadline: self.server.deadline(call) };
            match D::run(&mut self.connection, make(moment)).await {
                Ok(answer) => {
                    self.record_answer(call.clock(), answer.now);
                    return Ran::Answered(answer);
                }
                Err(error) => match D::trouble(error) {
                    Trouble::Undone(error) => undone = Some(error),
                    Trouble::Refused(error) => return Ran::Failed(error),
                    Trouble::Broken(error) => return Ran::Broken(error),
                },
            }
        }
        Ran::Failed(undone.unwrap_or_else(|| {
            Error::unavailable(Effect::NotApplied, "no time was left to send the statement")
        }))
    }

    /// Records that an answer has just arrived, and the server's time if the answer contained it.
    fn record_answer(&mut self, clock: &Clock, now: Option<i64>) {
        self.answered = clock.now();
        if let Some(now) = now {
            self.server.hear(now, self.answered);
        }
    }
}
