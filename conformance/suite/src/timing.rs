//! A test reports here that something took too long, which a busy machine can be the reason for. A failure that is wrong
//! whenever it happens (two holders, a token twice, a wake-up that was lost) is never reported this way.

mod answers;

use std::time::{Duration, Instant};

pub use answers::{Answered, Returned, released, still_held};
pub(crate) use answers::{assert_answered, assert_lost_for};

use crate::failure::Failure;

/// An answer that has not come this long after its time is not late: it is lost.
const LOST: Duration = Duration::from_secs(5);

/// Fails a test because of time alone, if something was not in time.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use lock_conformance::assert_in_time;
/// # let (asked, limit) = (Instant::now(), Duration::from_secs(1));
/// assert_in_time!(asked.elapsed() < limit, "answered after {:?}", asked.elapsed());
/// ```
#[macro_export]
macro_rules! assert_in_time {
    ($in_time:expr, $($reason:tt)+) => {
        if !$in_time {
            $crate::timing::too_late(&format!($($reason)+));
        }
    };
}
pub(crate) use assert_in_time;

/// Fails a test because of time alone.
///
/// # Panics
///
/// Always.
#[track_caller]
pub fn too_late(reason: &str) -> ! {
    std::panic::panic_any(Failure::Late(reason.to_owned()))
}

/// Ends a test that has shown nothing, because the event that it tests (a fault of the network, for example) has not
/// happened this time.
///
/// # Panics
///
/// Always.
#[track_caller]
pub fn void(reason: &str) -> ! {
    std::panic::panic_any(Failure::Void(reason.to_owned()))
}

/// Panics on purpose, as work with a bug would. Prints nothing on stderr, where it would look like a failure.
pub fn panic_on_purpose(what: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(what))
}

/// Waits until `there` returns true.
///
/// # Panics
///
/// With `what`, if that takes longer than `limit`.
pub async fn until<F: Future<Output = bool>>(what: &str, limit: Duration, there: impl FnMut() -> F) {
    let asked = Instant::now();
    if !comes_true(patience(limit), there).await {
        panic!("{what}: not within {:?}", patience(limit));
    }
    in_time(what, limit, asked);
}

/// Waits until `there` returns true, or for `limit`; returns whether it did.
pub(crate) async fn comes_true<F: Future<Output = bool>>(
    limit: Duration,
    mut there: impl FnMut() -> F,
) -> bool {
    let start = Instant::now();
    while !there().await {
        if start.elapsed() >= limit {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

/// Returns the output of `future`.
///
/// # Panics
///
/// With `what`, if that takes longer than `limit`.
pub async fn within<F: Future>(what: &str, limit: Duration, future: F) -> F::Output {
    let asked = Instant::now();
    let Ok(out) = tokio::time::timeout(patience(limit), future).await else {
        panic!("{what}: not within {:?}", patience(limit));
    };
    in_time(what, limit, asked);
    out
}

/// Returns how long a test waits: what is late has this long to come, and to show how late it is. What has not come by
/// then is lost.
fn patience(limit: Duration) -> Duration {
    limit + LOST.max(limit)
}

#[track_caller]
fn in_time(what: &str, limit: Duration, asked: Instant) {
    assert_in_time!(asked.elapsed() <= limit, "{what}: after {:?}, not within {limit:?}", asked.elapsed());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_not_late() {
        let sleeps = |ms: u64| async move {
            let sleep = tokio::time::sleep(Duration::from_millis(ms));
            let waits = tokio::spawn(within("it", Duration::from_millis(100), sleep));
            waits.await.err().map(|e| Failure::of(&*e.into_panic()))
        };
        assert!(matches!(sleeps(5_200).await, Some(Failure::Wrong(_))));
        assert_eq!(sleeps(90).await, None);
    }
}
