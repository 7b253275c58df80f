//! Calls, tasks and locks that a test relies on: whether a failure of theirs was only late.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lock_core::{Ending, Error, ErrorKind, Guard, LossReason};
use tokio::task::JoinError;

use super::too_late;

/// A call that was refused sooner than this was not refused because its time was over.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// A call to a server that is up.
pub trait Answered<T>: Future<Output = Result<T, Error>> + Sized {
    /// Returns the answer of the call.
    ///
    /// # Panics
    ///
    /// If the call fails. If the server had not answered in the call's time, that is lateness.
    fn answered(self) -> impl Future<Output = T>;
}

impl<T, F: Future<Output = Result<T, Error>>> Answered<T> for F {
    async fn answered(self) -> T {
        let asked = Instant::now();
        let error = match self.await {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        assert_answered(&error, asked.elapsed());
        panic!("the server is up: {error:?}")
    }
}

/// Fails a test because of time alone if the server, which is up, had not answered a call that `took` its time.
#[track_caller]
pub(crate) fn assert_answered(error: &Error, took: Duration) {
    if matches!(error.kind(), ErrorKind::Unavailable { .. }) && took >= SHORTEST_CALL {
        too_late(&format!("the server is up: {error:?}"));
    }
}

/// The result of a task.
pub trait Returned<T> {
    /// Returns the task's result.
    ///
    /// # Panics
    ///
    /// With the task's own panic, if it panicked.
    fn returned(self) -> T;
}

impl<T> Returned<T> for Result<T, JoinError> {
    fn returned(self) -> T {
        self.unwrap_or_else(|e| match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(e) => panic!("{e}"),
        })
    }
}

/// Releases a lock that must have been held until now.
///
/// # Panics
///
/// If the lock had expired. If it could not be renewed, or the first request of the release was not answered in its time,
/// that is lateness: the repeated request finds nothing any more. If it was certainly held and had expired at the server,
/// that is wrong.
pub async fn released(guard: Guard) {
    still_held(&guard);
    let (name, left, asked) = (guard.name().clone(), guard.valid_for(), Instant::now());
    let ending = guard.release().await;
    assert_released(&format!("{name:?}"), ending, left, asked.elapsed());
}

/// Judges a release that took so long, of a lock that was certainly held for `left` more when it began. A request has a
/// third of the ttl, which is more than `left`: a release that was answered sooner than that was not repeated.
#[track_caller]
fn assert_released(name: &str, ending: Ending, left: Duration, took: Duration) {
    match ending {
        Ending::Released => {}
        Ending::Expired if left.is_zero() => too_late(&format!("{name} had expired before its release")),
        Ending::Expired if took >= (left / 3).max(SHORTEST_CALL) => {
            too_late(&format!("the release of {name} took {took:?}"))
        }
        Ending::Expired => panic!("{name} was certainly held for {left:?} more, and had expired"),
    }
}

/// Fails a test whose lock is lost.
///
/// # Panics
///
/// If the lock is lost. If it could not be renewed in time, that is lateness.
#[track_caller]
pub fn still_held(guard: &Guard) {
    let Err(lost) = guard.check() else { return };
    match pin!(guard.lost()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(LossReason::Expired) => too_late(&format!("it is renewed: {lost}")),
        _ => panic!("{lost:?}"),
    }
}

/// Checks why a lock was lost, when that was not to be its lease's end.
///
/// # Panics
///
/// If it was lost for another reason. If it could not be renewed in time, that is lateness.
#[track_caller]
pub(crate) fn assert_lost_for(found: LossReason, due: LossReason) {
    if found == LossReason::Expired {
        too_late("it is renewed until then");
    }
    assert_eq!(found, due);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, of_test as failure};

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn only_a_release_possibly_repeated_was_late() {
        let released = |ending, left, took| failure(|| assert_released("a", ending, ms(left), ms(took)));
        assert!(released(Ending::Released, 600, 900).is_none());
        assert!(matches!(released(Ending::Expired, 600, 200), Some(Failure::Late(_))));
        assert!(matches!(released(Ending::Expired, 600, 199), Some(Failure::Wrong(_))));
        assert!(matches!(released(Ending::Expired, 60, 49), Some(Failure::Wrong(_))));
        assert!(matches!(released(Ending::Expired, 0, 1), Some(Failure::Late(_))));
    }

    #[test]
    fn only_a_lease_that_was_not_renewed_was_late() {
        let lost_for = |found| failure(|| assert_lost_for(found, LossReason::Revoked));
        assert!(lost_for(LossReason::Revoked).is_none());
        assert!(matches!(lost_for(LossReason::Expired), Some(Failure::Late(_))));
        assert!(matches!(lost_for(LossReason::Gone), Some(Failure::Wrong(_))));
    }

    #[tokio::test]
    async fn only_a_call_that_took_its_time_was_late() {
        let asked = |takes: Duration, error: Error| async move {
            let call = async move {
                tokio::time::sleep(takes).await;
                Err::<(), _>(error)
            };
            tokio::spawn(call.answered()).await.err().map(|e| Failure::of(&*e.into_panic()))
        };
        let unavailable = || Error::unavailable(lock_core::Effect::Unknown, "no answer");
        assert!(matches!(asked(SHORTEST_CALL, unavailable()).await, Some(Failure::Late(_))));
        assert!(matches!(asked(Duration::ZERO, unavailable()).await, Some(Failure::Wrong(_))));
        assert!(matches!(asked(SHORTEST_CALL, Error::rejected("no")).await, Some(Failure::Wrong(_))));
    }
}
