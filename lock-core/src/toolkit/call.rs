//! A call of a claim or a driver, and the time it has.

use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::{Effect, Error};
use crate::human_duration::HumanDuration;

/// A call in progress. It ends in time, however many requests it takes.
///
/// Its time is its caller's patience ([`Request::patience`](crate::driver::Request::patience)), counted from its start
/// on the client's clock. The length of a lease is counted from the same moment.
#[derive(Clone, Debug)]
pub struct Call {
    clock: Clock,
    began: Instant,
    ends: Instant,
    patience: Duration,
}

impl Call {
    /// Starts a call now.
    pub fn begin(clock: &Clock, patience: Duration) -> Call {
        let began = clock.now();
        Call { clock: clock.clone(), began, ends: began + patience, patience }
    }

    /// Returns the clock on which the call is timed.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns when the call began, before anything was asked.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns when the call has to be over.
    pub fn ends(&self) -> Instant {
        self.ends
    }

    /// Returns how much of its time is left; zero if none is.
    pub fn left(&self) -> Duration {
        self.ends.since(self.clock.now())
    }

    /// Returns whether its time is over.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns the same call with an earlier end: an eighth of its time is kept for what has to be done afterwards.
    pub fn with_reserve(&self) -> Call {
        let whole = self.patience - self.patience / 8;
        Call { ends: self.began + whole, ..self.clone() }
    }

    /// Returns what `future` returns in the time that is left; `None` if it takes longer. Then `future` is dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `future` is.
    pub async fn within<F: Future>(&self, future: F) -> Option<F::Output> {
        self.clock.until(self.ends, future).await
    }

    /// Returns the error which says that the time is over, and what may have been done.
    pub fn out_of_time(&self, effect: Effect) -> Error {
        unanswered(effect, self.patience)
    }
}

pub(crate) fn unanswered(effect: Effect, patience: Duration) -> Error {
    Error::unavailable(effect, format!("the server did not answer within {}", HumanDuration(patience)))
}
