//! A client's machine that can be suspended: its timers stand still meanwhile, its clock does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::toolkit::{Time, Timer};
use lock_core::{Clock, Instant};

/// The machine's clock, and the time that it slept. Clones are the same machine.
#[derive(Clone, Debug)]
pub(crate) struct Suspendable {
    real: Clock,
    asleep_ms: Arc<AtomicU64>,
}

impl Default for Suspendable {
    fn default() -> Suspendable {
        Suspendable { real: Clock::system(), asleep_ms: Arc::default() }
    }
}

impl Suspendable {
    /// Returns the clock for a client on this machine.
    pub(crate) fn clock(&self) -> Clock {
        Clock::new(self.clone())
    }

    /// Makes the machine have slept for `time`, until now.
    pub(crate) fn sleeps(&self, time: Duration) {
        self.asleep_ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Time for Suspendable {
    fn now(&self) -> Instant {
        self.real.now() + Duration::from_millis(self.asleep_ms.load(Ordering::SeqCst))
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}
