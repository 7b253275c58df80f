//! The moment at which the command is killed, on a clock that is the same in every process of the machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The longest single timer: a timer stands still while the machine sleeps, so the clock is read at least this often.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// A moment that means the same in two processes of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Duration);

impl Deadline {
    /// Returns the moment that is `left` away, or a slightly earlier one.
    ///
    /// The clock is read before `left` is called. If this process is stopped between the two, the moment is too early,
    /// never too late.
    pub(crate) fn after(left: impl FnOnce() -> Duration) -> Deadline {
        let now = now();
        Deadline(now.saturating_add(left()))
    }

    /// Returns the moment that comes `time` earlier.
    pub(super) fn earlier(self, time: Duration) -> Deadline {
        Deadline(self.0.saturating_sub(time))
    }

    /// Returns the moment that comes `time` later.
    pub(crate) fn later(self, time: Duration) -> Deadline {
        Deadline(self.0.saturating_add(time))
    }

    /// Returns the time until the moment; zero when it has come.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_sub(now())
    }

    /// Waits until the moment has come.
    pub(crate) async fn reached(self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_TIMER)).await;
        }
    }

    /// Enough for 584 years since the machine was started.
    pub(super) fn to_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn from_nanos(nanos: u64) -> Deadline {
        Deadline(Duration::from_nanos(nanos))
    }
}

/// Reads a clock that also runs while the machine sleeps, on Linux and Apple's systems.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let t = clock_gettime(clock);
    // On a monotonic clock both fields are never negative, and the nanoseconds are below one second.
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}
