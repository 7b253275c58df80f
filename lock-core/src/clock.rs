//! The one clock of a client: suspend-aware, and handed in, so that a simulation can own it.

use std::fmt;
use std::ops::Add;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::os;

/// A moment on one client's clock. Moments of different clients are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The moment this long after the clock's arbitrary origin.
    pub fn from_origin(since: Duration) -> Instant {
        Instant(since)
    }

    /// How long after the clock's arbitrary origin this is.
    pub fn since_origin(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero if it isn't.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Later by `wait`; a moment beyond what the clock can hold is its last one, which never comes.
    fn add(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(wait))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A future that resolves when its time has come.
pub type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a clock is made of. [`Clock::system`] has one; simulations bring their own.
pub trait Time: fmt::Debug + Send + Sync + 'static {
    /// Now. Monotonic, and counts the time in which the machine was suspended.
    fn now(&self) -> Instant;
    /// Resolves after `pause`, or later if the machine is suspended meanwhile.
    fn timer(&self, pause: Duration) -> Timer;
}

/// A client's clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Arc<dyn Time>,
    /// Told when time was seen to jump ahead of the timers, as it does after a suspend.
    jumps: Arc<Notify>,
}

impl Clock {
    /// The operating system's: `CLOCK_BOOTTIME` on Linux, because an ordinary monotonic clock stands still while a
    /// laptop or a virtual machine sleeps, and the server's doesn't.
    pub fn system() -> Clock {
        Clock::new(System)
    }

    /// A clock that tells the time of `time`.
    pub fn new(time: impl Time) -> Clock {
        Clock { time: Arc::new(time), jumps: Arc::default() }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.time.now()
    }

    /// Resolves at `at`, also if that moment came while the machine was suspended. Cancel safe.
    pub async fn sleep_until(&self, at: Instant) {
        loop {
            // Made before the look at the clock: it hears of every jump from here on.
            let jump = self.jumps.notified();
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = self.time.timer(left.min(LONGEST_TIMER)) => {}
                () = jump => {}
            }
        }
    }

    /// Resolves after `pause`. Cancel safe.
    pub async fn sleep(&self, pause: Duration) {
        self.sleep_until(self.now() + pause).await;
    }

    /// What `future` answers until `at`, else `None`; then `future` has been dropped.
    pub(crate) async fn until<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            out = future => Some(out),
            () = self.sleep_until(at) => None,
        }
    }

    /// What `future` answers within `limit`, else `None`; then `future` has been dropped.
    ///
    /// For the bound of a call: on a machine that is suspended meanwhile it may come later.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            out = future => Some(out),
            () = self.time.timer(limit.min(LONGEST_TIMER)) => None,
        }
    }

    /// Passes a `step` and, if time has jumped ahead meanwhile, wakes every sleeper and answers by how much.
    pub(crate) async fn watch(&self, step: Duration) -> Option<Duration> {
        let before = self.now();
        self.time.timer(step).await;
        let late = self.now().since(before + step);
        // A busy executor is late too: waking everybody for that is harmless.
        let jumped = late > step;
        if jumped {
            self.jumps.notify_waiters();
        }
        jumped.then_some(late)
    }
}

/// Timers of any length have not been tried by anybody.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
struct System;

impl Time for System {
    fn now(&self) -> Instant {
        Instant(os::monotonic())
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "this is the clock that the rule asks everybody else to use"
    )]
    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}
