//! What a case says when something took too long: that the reason is time alone, so that it is asked again on a machine
//! that has time for it. What is wrong whenever it happens (two holders, a token twice) never says so.

use std::time::{Duration, Instant};

use lock_core::{Cause, Ending};

/// What the reason of a failure begins with if it is about time alone.
const TOO_LATE: &str = "too late: ";
/// What it begins with if what the case is about has not happened.
const VOID: &str = "void: ";
/// What an error says if a call, or a wait, had not enough of it: a case that expected an answer didn't wait for long
/// enough.
const UNANSWERED: &str = "the server did not answer within ";
const UNANSWERED_WAIT: &str = "the server has not answered within the wait";
/// The same of the program `lock`, whose wait is for the server and the lock together.
const UNREACHED_WAIT: &str = "the server was not reachable within the wait";
/// What backends say of a call that had not enough of it, or whose message came too late.
const OUT_OF_TIME: &[&str] = &[
    "too late, and was refused",
    "reached the server after its deadline",
    "came too late, and was undone",
    "took all of its time",
    "until the call's time was over",
    "kept the file locked for too long",
    "kept the lock's row for too long",
    "no connection was free in time",
    "no connection could be opened within",
    "could be reached within",
    "no session could be opened in time",
    "no stream of watches within",
    "no subscription within",
    "connection for wake-ups within",
    "no subscription connection within",
    "no change stream within",
    "did not agree in time",
    "did not say in time",
    "took longer than the lease",
    "expired before its release",
];
/// What is said of a lock that is renewed and expires all the same: by its guard, and by the program `lock`.
const NOT_RENEWED: &str = "could not be renewed";

/// Fails a case because of time alone, if the condition doesn't hold.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use lock_conformance::assert_in_time;
/// # let (asked, limit) = (Instant::now(), Duration::from_secs(1));
/// assert_in_time!(asked.elapsed() < limit, "answered after {:?}", asked.elapsed());
/// ```
#[macro_export]
macro_rules! assert_in_time {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            $crate::timing::too_late(&format!($($reason)+));
        }
    };
}
pub(crate) use assert_in_time;

/// Fails a case because of time alone.
pub fn too_late(reason: &str) -> ! {
    panic!("{TOO_LATE}{reason}")
}

/// Ends a case that has shown nothing: what it is about, a fault of the network for one, has not happened this time.
pub fn void(reason: &str) -> ! {
    panic!("{VOID}{reason}")
}

/// Panics as work may that has a bug: on purpose, and so without a word on stderr, where it would look like a failure.
pub fn panic_on_purpose(what: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(what))
}

/// Whether a case has shown nothing.
pub(crate) fn is_void(reason: &str) -> bool {
    // Also as a task says it that has ended by it.
    reason.starts_with(VOID) || reason.contains(&format!("\"{VOID}"))
}

/// Whether a case failed for that, itself or in one of its tasks.
pub(crate) fn is_about_time(reason: &str) -> bool {
    let found_at_the_release = format!("left: {:?}", Ending::Expired);
    let found_instead_of_no_loss = format!("left: {:?}", Some(Cause::Expired));
    let found = [found_at_the_release.as_str(), &found_instead_of_no_loss];
    let said = [TOO_LATE, UNANSWERED, UNANSWERED_WAIT, UNREACHED_WAIT, NOT_RENEWED];
    said.iter().chain(&found).chain(OUT_OF_TIME).any(|text| reason.contains(text))
}

/// Waits until `there` says so; fails the case with `what` after `limit`.
pub async fn until<F: Future<Output = bool>>(what: &str, limit: Duration, there: impl FnMut() -> F) {
    assert_in_time!(comes_true(limit, there).await, "{what}: not within {limit:?}");
}

/// Waits until `there` says so, or for `limit`; answers whether it did.
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

/// What `future` answers; fails the case with `what` if it takes longer than `limit`.
pub async fn within<F: Future>(what: &str, limit: Duration, future: F) -> F::Output {
    match tokio::time::timeout(limit, future).await {
        Ok(out) => out,
        Err(_) => too_late(&format!("{what}: not within {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::driver::Call;
    use lock_core::{Clock, Done};

    use super::*;

    #[test]
    fn only_what_is_about_time_says_so() {
        let failure = std::panic::catch_unwind(|| assert_in_time!(1 + 1 > 2, "{} of {}", 1, 2)).unwrap_err();
        assert!(is_about_time(failure.downcast_ref::<String>().expect("a text")));
        let call = Call::begin(&Clock::system(), Duration::from_secs(1));
        assert!(is_about_time(&format!("it is renewed: {}", Cause::Expired)));
        assert!(is_about_time(&format!("the server is up: {:?}", call.out_of_time(Done::Unknown))));
        let about_time = |found: Ending, expected: Ending| {
            let failure = std::panic::catch_unwind(|| assert_eq!(found, expected)).unwrap_err();
            is_about_time(failure.downcast_ref::<String>().expect("a text"))
        };
        assert!(about_time(Ending::Expired, Ending::Released));
        assert!(!about_time(Ending::Released, Ending::Expired));
        assert!(!is_about_time("two at a time"));
    }
}
