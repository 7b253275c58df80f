//! A moment.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Add;
use std::time::Duration;

/// A moment on one client's clock. Moments of different clients are not comparable.
///
/// ```
/// # use lock_core as onelock;
/// use std::time::Duration;
///
/// use onelock::Clock;
///
/// let clock = Clock::system();
/// let begin = clock.now();
/// assert!((begin + Duration::from_secs(1)).since(begin) == Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// Nanoseconds since the clock's origin, and one more: so an `Option<Instant>` takes no more room.
    NonZeroU64,
);

impl Instant {
    /// Returns the moment this long after the clock's arbitrary origin. More than 584 years after it is the last moment,
    /// which never comes.
    pub fn from_origin(since: Duration) -> Instant {
        Instant::of_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns how long after the clock's arbitrary origin this moment is.
    pub fn since_origin(self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Returns how long after `earlier` this moment is; zero if it is not later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanos().saturating_sub(earlier.nanos()))
    }

    pub(super) fn of_nanos(nanos: u64) -> Instant {
        Instant(NonZeroU64::MIN.saturating_add(nanos))
    }

    fn nanos(self) -> u64 {
        self.0.get() - 1
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Returns the moment that is later by `wait`. Beyond what the clock can hold, returns its last moment, which never
    /// comes.
    fn add(self, wait: Duration) -> Instant {
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(wait))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.since_origin(), f)
    }
}
