//! A clock that advances only when no task has anything else to do, however busy the machine is.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::toolkit::{Time, Timer};
use lock_core::{Clock, Instant};

/// Reads tokio's paused clock. All clocks of this type show the same time.
#[derive(Debug)]
struct Virtual;

#[allow(clippy::disallowed_methods, reason = "the virtual clock is made of these")]
impl Time for Virtual {
    fn now(&self) -> Instant {
        static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        // Another test's clock may have begun before the origin.
        const AHEAD: Duration = Duration::from_secs(3600);
        let now = (tokio::time::Instant::now() + AHEAD).into_std();
        Instant::from_origin(now.saturating_duration_since(*ORIGIN))
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

pub(crate) fn clock() -> Clock {
    Clock::new(Virtual)
}
