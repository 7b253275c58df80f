//! How a test reports that something took too long. It says by how much, so that a machine that stood still for that
//! long can be told from a backend that was late. A failure that is wrong whenever it happens (two holders, a token
//! twice, a wake-up that was lost) is never reported this way.

mod answers;

use std::time::{Duration, Instant};

pub use answers::{Answered, Returned, released, still_held};
pub(crate) use answers::{assert_answered, assert_lost_for};

use crate::failure::{TooLate, Void};

/// What has not come this long after its time is not late: it is lost.
const LOST: Duration = Duration::from_secs(5);

/// Fails a test because of time alone, if the comparison doesn't hold.
///
/// Compares two durations or two instants: when something came and when it was due, or how much is left and the least
/// that had to be left. A condition of another kind has to say by how much it was missed (`late by`).
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use lock_conformance::assert_in_time;
/// # let (asked, limit) = (Instant::now(), Duration::from_secs(1));
/// assert_in_time!(asked.elapsed() < limit, "answered after {:?}", asked.elapsed());
/// # let looks = 9;
/// assert_in_time!(looks == 9, late by Duration::from_secs(1), "{looks} looks in 9 s");
/// ```
#[macro_export]
macro_rules! assert_in_time {
    (@ [$($came:tt)+] < $due:expr, $($reason:tt)+) => {
        $crate::timing::at_most($($came)+, $due, || format!($($reason)+))
    };
    (@ [$($came:tt)+] <= $due:expr, $($reason:tt)+) => {
        $crate::timing::at_most($($came)+, $due, || format!($($reason)+))
    };
    (@ [$($left:tt)+] > $least:expr, $($reason:tt)+) => {
        $crate::timing::at_least($($left)+, $least, || format!($($reason)+))
    };
    (@ [$($left:tt)+] >= $least:expr, $($reason:tt)+) => {
        $crate::timing::at_least($($left)+, $least, || format!($($reason)+))
    };
    (@ [$($condition:tt)+] , late by $by:expr, $($reason:tt)+) => {
        if !($($condition)+) {
            $crate::timing::too_late($by, &format!($($reason)+));
        }
    };
    (@ [$($before:tt)*] $next:tt $($rest:tt)+) => {
        $crate::assert_in_time!(@ [$($before)* $next] $($rest)+)
    };
    (@ $($none:tt)*) => {
        compile_error!("a comparison by <, <=, > or >=, or `late by` a duration")
    };
    ($($all:tt)+) => {
        $crate::assert_in_time!(@ [] $($all)+)
    };
}
pub(crate) use assert_in_time;

/// A time that can be missed: how long something took, or when it came.
pub trait Due: Copy {
    /// Returns by how much `self` is beyond `due`; zero if it isn't.
    fn beyond(self, due: Self) -> Duration;

    /// Returns the length of time in which it was missed by `missed_by`.
    fn within(self, missed_by: Duration) -> Duration;
}

impl Due for Duration {
    fn beyond(self, due: Duration) -> Duration {
        self.saturating_sub(due)
    }

    fn within(self, missed_by: Duration) -> Duration {
        self.max(missed_by)
    }
}

impl Due for Instant {
    fn beyond(self, due: Instant) -> Duration {
        self.saturating_duration_since(due)
    }

    fn within(self, missed_by: Duration) -> Duration {
        missed_by * 2
    }
}

/// Fails a test for which something came too late.
///
/// # Panics
///
/// If `came` is beyond `due`.
#[track_caller]
pub fn at_most<T: Due>(came: T, due: T, reason: impl FnOnce() -> String) {
    let by = came.beyond(due);
    if !by.is_zero() {
        TooLate { by, during: came.within(by), what: reason() }.panic();
    }
}

/// Fails a test that has too little time left: the test itself was too slow.
///
/// # Panics
///
/// If `left` is less than `least`.
#[track_caller]
pub fn at_least<T: Due>(left: T, least: T, reason: impl FnOnce() -> String) {
    let by = least.beyond(left);
    if !by.is_zero() {
        TooLate { by, during: by * 2, what: reason() }.panic();
    }
}

/// Fails a test because of time alone: something was late by at least `by`.
///
/// # Panics
///
/// Always.
#[track_caller]
pub fn too_late(by: Duration, reason: &str) -> ! {
    TooLate { by, during: by * 2, what: reason.to_owned() }.panic()
}

/// Ends a test that has shown nothing, because the event that it tests (a fault of the network, for example) has not
/// happened this time.
///
/// # Panics
///
/// Always.
#[track_caller]
pub fn void(reason: &str) -> ! {
    Void(reason.to_owned()).panic()
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
    at_most(asked.elapsed(), limit, || format!("{what}: after {:?}, not within {limit:?}", asked.elapsed()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, of_test as failure};

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn late_by(test: impl FnOnce()) -> Option<Duration> {
        match failure(test)? {
            Failure::Late(TooLate { by, .. }) => Some(by),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn lateness_says_by_how_much() {
        assert_eq!(late_by(|| assert_in_time!(ms(7) <= ms(7), "in time")), None);
        assert_eq!(late_by(|| assert_in_time!(ms(9) < ms(4) + ms(3), "{}", 9)), Some(ms(2)));
        assert_eq!(late_by(|| assert_in_time!(ms(1) > ms(4), "little is left")), Some(ms(3)));
        let due = Instant::now();
        assert_eq!(late_by(|| assert_in_time!(due + ms(5) < due, "an instant")), Some(ms(5)));
        assert_eq!(late_by(|| assert_in_time!(1 + 1 == 3, late by ms(8), "a count")), Some(ms(8)));
        assert!(matches!(failure(|| assert_eq!(1, 2)), Some(Failure::Wrong(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_comes_is_not_late() {
        let started = tokio::time::Instant::now();
        let sleeps = |time: Duration| async move {
            let waits = tokio::spawn(within("it", ms(100), tokio::time::sleep(time)));
            waits.await.err().map(|e| Failure::of(&*e.into_panic()))
        };
        assert!(matches!(sleeps(LOST + ms(200)).await, Some(Failure::Wrong(_))));
        assert!(started.elapsed() >= LOST + ms(100));
    }
}
