//! When the command is killed, on a clock that is the same in every process of the machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A timer stands still while the machine sleeps: the clock is looked at this often.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// A moment that two processes of one machine understand alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Duration);

impl Deadline {
    /// The moment that is `left` away, or a little earlier.
    ///
    /// The clock is read before `left` is asked for: if this process is stopped between the two, the moment comes too
    /// early, never too late.
    pub(crate) fn after(left: impl FnOnce() -> Duration) -> Deadline {
        let now = now();
        Deadline(now.saturating_add(left()))
    }

    /// How long it is until then; zero when it has come.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_sub(now())
    }

    /// Resolves when it has come.
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

/// Goes on while the machine sleeps, on Linux and Apple's systems.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let t = clock_gettime(clock);
    // Both fields of a monotonic clock are never negative, and its nanoseconds stay below a second.
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}
