//! One connection together with its estimate of the server's clock. They are replaced as one: an estimate made on
//! another connection may be of another server.

use lock_core::driver::{Call, Drift};
use lock_core::{Clock, Done, Error, Instant};

use super::dialect::{Answer, Dialect, Opened, Trouble};

/// An open connection.
#[derive(Debug)]
pub(super) struct Link<D: Dialect> {
    connection: D::Connection,
    /// The server's time minus ours, in microseconds, as of `heard`.
    offset: i64,
    /// When an answer last held the server's time.
    heard: Instant,
    /// When it last answered.
    pub(super) answered: Instant,
    /// When it was opened, and the estimate of then.
    opened: (Instant, i64),
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
        let at = clock.now();
        let offset = opened.now.saturating_sub(micros(at));
        Link { connection: opened.connection, offset, heard: at, answered: at, opened: (at, offset) }
    }

    /// How the server's clock has gone since the connection was opened.
    pub(super) fn drift(&self) -> Drift {
        let (at, offset) = self.opened;
        Drift { over: self.heard.since(at), micros: self.offset.saturating_sub(offset) }
    }

    /// Runs the statement that `make` makes of the moment; again if the server undid it, until the call is over.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        make: &(impl Fn(Moment) -> D::Statement + Sync),
    ) -> Ran<D::Row> {
        let mut undone = None;
        while !call.left().is_zero() {
            let moment = Moment { deadline: self.deadline(call) };
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

    /// The end of the call's patience on the server's clock.
    ///
    /// The older the estimate, the earlier: the two clocks may go at rates that differ by 1 %.
    fn deadline(&self, call: &Call) -> i64 {
        let drift = call.ends().since(self.heard) / 100;
        micros(call.ends()).saturating_add(self.offset).saturating_sub(super::micros(drift))
    }

    /// Takes note of the server's time, which an answer that has just arrived gave.
    ///
    /// It is paired with the moment after the answer: the estimate then stands at the server's clock or behind it, and
    /// no deadline made of it lies beyond the end of a call's patience. An attempt that is refused for it learns the
    /// time, and costs one more round trip; the other error would let an attempt take the lock after its caller has gone.
    fn hear(&mut self, clock: &Clock, now: Option<i64>) {
        self.answered = clock.now();
        if let Some(now) = now {
            self.heard = self.answered;
            self.offset = now.saturating_sub(micros(self.answered));
        }
    }
}

fn micros(at: Instant) -> i64 {
    i64::try_from(at.since_origin().as_micros()).unwrap_or(i64::MAX)
}
