//! One connection together with its estimate of the server's clock. They are replaced as one: an estimate made on
//! another connection may be of another server.

use lock_core::driver::{Call, Drift, ServerClock};
use lock_core::{Clock, Done, Error, Instant};

use super::dialect::{Answer, Dialect, Opened, Trouble};

/// An open connection.
#[derive(Debug)]
pub(super) struct Link<D: Dialect> {
    connection: D::Connection,
    server: ServerClock,
    /// When it last answered.
    pub(super) answered: Instant,
}

/// What a statement has to know of the moment in which it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The end of the call's patience on the server's clock, or a little before it.
    pub(crate) deadline: i64,
}

/// What became of a statement.
#[derive(Debug)]
pub(super) enum Ran<R> {
    Answered(Answer<R>),
    /// Not done, or not known to be; the connection is as good as before.
    Failed(Error),
    /// The same, and the connection is of no more use.
    Broken(Error),
}

impl<D: Dialect> Link<D> {
    pub(super) fn new(opened: Opened<D::Connection>, clock: &Clock) -> Link<D> {
        let answered = clock.now();
        let server = ServerClock::new(opened.now, answered);
        Link { connection: opened.connection, server, answered }
    }

    /// How the server's clock has gone since the connection was opened.
    pub(super) fn drift(&self) -> Drift {
        self.server.drift()
    }

    /// Runs the statement that `make` makes of the moment; again if the server undid it, until the call is over.
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
                    self.hear(call.clock(), answer.now);
                    return Ran::Answered(answer);
                }
                Err(error) => match D::trouble(error) {
                    Trouble::Undone(error) => undone = Some(error),
                    Trouble::Refused(error) => return Ran::Failed(error),
                    Trouble::Broken(error) => return Ran::Broken(error),
                },
            }
        }
        Ran::Failed(
            undone
                .unwrap_or_else(|| Error::unavailable(Done::No, "the calls before it took all of its time")),
        )
    }

    /// Takes note of an answer that has just arrived, and of the server's time if that told it.
    fn hear(&mut self, clock: &Clock, now: Option<i64>) {
        self.answered = clock.now();
        if let Some(now) = now {
            self.server.hear(now, self.answered);
        }
    }
}
