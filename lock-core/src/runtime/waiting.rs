//! A caller's wait for the client's runtime: in the process that opened the client, and not for ever if that
//! runtime stands still.

use std::pin::pin;
use std::time::Duration;

use super::{RuntimeHandle, inherited, runtime_ended};
use crate::clock::Clock;
use crate::error::{Effect, Error};
use crate::process::OnlyHere;

/// The time that a runtime that runs may take for a task that does nothing, on a busy machine.
const GRACE: Duration = Duration::from_millis(500);

/// Why a caller does not get what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The process is a fork of the one that opened the client.
    Forked,
    /// No thread drives the client's runtime, or code blocks it.
    StandsStill,
    /// The client's runtime has ended.
    Ended,
}

impl RuntimeHandle {
    /// Waits for `future`, which is neither polled nor dropped in a fork.
    pub(crate) async fn here<F: Future>(&self, future: F) -> Result<F::Output, Unanswered> {
        OnlyHere::new(self.process, future).await.ok_or(Unanswered::Forked)
    }

    /// Waits for what this runtime does. Gives up if the runtime does not run after `patience`, or after any further
    /// `patience`.
    pub(crate) async fn answer<T>(
        &self,
        clock: &Clock,
        patience: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, Unanswered> {
        if clock.is_simulated() {
            return self.here(future).await;
        }
        let answered = self.here(async {
            let mut future = pin!(future);
            loop {
                if let Some(answer) = clock.until(clock.now() + patience, &mut future).await {
                    return Ok(answer);
                }
                tokio::select! {
                    biased;
                    answer = &mut future => return Ok(answer),
                    fails = self.fails_to_run(clock) => if let Some(why) = fails {
                        return Err(why);
                    },
                }
            }
        });
        answered.await?
    }

    /// Adds to the error of a call that had no answer why this runtime does not run, if it doesn't.
    pub(crate) async fn explain(&self, clock: &Clock, error: Error) -> Error {
        if clock.is_simulated() || !error.is_transient() {
            return error;
        }
        match self.here(self.fails_to_run(clock)).await {
            Ok(Some(why)) => {
                error.and_says(&format!("; {}", self.unanswered(why, Effect::NotApplied).message()))
            }
            Ok(None) | Err(_) => error,
        }
    }

    /// Returns the error for a caller.
    pub(crate) fn unanswered(&self, why: Unanswered, effect: Effect) -> Error {
        match why {
            Unanswered::Forked => inherited(),
            Unanswered::StandsStill => Error::unavailable(effect, self.stands_still()),
            Unanswered::Ended => runtime_ended(),
        }
    }

    /// Returns why this runtime runs no task; `None` if it does.
    async fn fails_to_run(&self, clock: &Clock) -> Option<Unanswered> {
        match clock.until(clock.now() + GRACE, self.handle.spawn(async {})).await {
            Some(Ok(())) => None,
            Some(Err(_)) => Some(Unanswered::Ended),
            None => Some(Unanswered::StandsStill),
        }
    }

    fn stands_still(&self) -> &'static str {
        match self.thread {
            None => {
                "the runtime that this client was opened on stands still: no thread drives it, or code blocks it; open the \
                 client with a thread of its own (Options::dedicated)"
            }
            Some(_) => {
                "this client's own thread stands still: an observer or another receiver of events blocks it"
            }
        }
    }
}
