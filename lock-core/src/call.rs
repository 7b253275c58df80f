//! A call of a claim or a driver, and the time it has.

use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::{Done, Error};

/// A call in progress, which is answered in time however many requests it takes.
///
/// Its time is its caller's patience ([`Request::patience`](crate::driver::Request::patience)), counted from its
/// beginning by the client's clock: what a lease is worth is counted from there, too.
#[derive(Clone, Debug)]
pub struct Call {
    clock: Clock,
    began: Instant,
    ends: Instant,
    patience: Duration,
}

impl Call {
    /// A call that begins now.
    pub fn begin(clock: &Clock, patience: Duration) -> Call {
        let began = clock.now();
        Call { clock: clock.clone(), began, ends: began + patience, patience }
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When it began: before anything was asked.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When it has to be over.
    pub fn ends(&self) -> Instant {
        self.ends
    }

    /// How much of its time is left; zero if none is.
    pub fn left(&self) -> Duration {
        self.ends.since(self.clock.now())
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// The same, but over somewhat earlier: an eighth of the time is for what has to be done then.
    pub fn with_reserve(&self) -> Call {
        let whole = self.patience - self.patience / 8;
        Call { ends: self.began + whole, ..self.clone() }
    }

    /// What `future` answers in the time that is left; `None`, and `future` is dropped, if it takes longer.
    pub async fn within<F: Future>(&self, future: F) -> Option<F::Output> {
        self.clock.timeout(self.left(), future).await
    }

    /// The error that says so, and what may have been done.
    pub fn out_of_time(&self, done: Done) -> Error {
        unanswered(done, self.patience)
    }
}

pub(crate) fn unanswered(done: Done, patience: Duration) -> Error {
    Error::unavailable(done, format!("the server did not answer within {patience:?}"))
}
