//! The only clock of a client. It counts suspend, and it is passed in, so that a simulation can control it.

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
    /// Returns the moment this long after the clock's arbitrary origin.
    pub fn from_origin(since: Duration) -> Instant {
        Instant(since)
    }

    /// Returns how long after the clock's arbitrary origin this moment is.
    pub fn since_origin(self) -> Duration {
        self.0
    }

    /// Returns how long after `earlier` this moment is; zero if it is not later.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Returns the moment that is later by `wait`. Beyond what the clock can hold, returns its last moment, which never
    /// comes.
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

/// The source of a clock's time. [`Clock::system`] has one; simulations bring their own.
pub trait Time: fmt::Debug + Send + Sync + 'static {
    /// Returns the current moment. Monotonic; counts the time in which the machine was suspended.
    fn now(&self) -> Instant;
    /// Returns a timer that resolves after `pause`, or later if the machine is suspended in between.
    fn timer(&self, pause: Duration) -> Timer;
}

/// A client's clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Arc<dyn Time>,
    /// Notified when time was seen to jump ahead of the timers, as it does after a suspend.
    jumps: Arc<Notify>,
}

impl Clock {
    /// Returns the operating system's clock: `CLOCK_BOOTTIME` on Linux, because an ordinary monotonic clock stands
    /// still while a laptop or a virtual machine sleeps, and the server's clock doesn't.
    pub fn system() -> Clock {
        Clock::new(System)
    }

    /// Makes a clock that shows the time of `time`.
    pub fn new(time: impl Time) -> Clock {
        Clock { time: Arc::new(time), jumps: Arc::default() }
    }

    /// Returns the current moment.
    pub fn now(&self) -> Instant {
        self.time.now()
    }

    /// Waits until `at`, also if that moment came while the machine was suspended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn sleep_until(&self, at: Instant) {
        loop {
            // Made before the clock is read, so that it sees every jump from here on.
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

    /// Waits for `pause`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn sleep(&self, pause: Duration) {
        self.sleep_until(self.now() + pause).await;
    }

    /// Returns what `future` returns before `at`; otherwise `None`. Then `future` has been dropped.
    pub(crate) async fn until<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            out = future => Some(out),
            () = self.sleep_until(at) => None,
        }
    }

    /// Returns what `future` returns within `limit`; otherwise `None`. Then `future` has been dropped.
    ///
    /// Meant for the time limit of a call. If the machine is suspended in between, this may return later.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `future` is.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            out = future => Some(out),
            () = self.time.timer(limit.min(LONGEST_TIMER)) => None,
        }
    }

    /// Waits for `step`. If time has jumped ahead in the meantime, wakes every sleeper and returns by how much.
    pub(crate) async fn watch(&self, step: Duration) -> Option<Duration> {
        let before = self.now();
        self.time.timer(step).await;
        let late = self.now().since(before + step);
        // A busy executor is late too; waking all sleepers for that is harmless.
        let jumped = late > step;
        if jumped {
            self.jumps.notify_waiters();
        }
        jumped.then_some(late)
    }
}

/// The longest single timer; longer sleeps are chained.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
struct System;

impl Time for System {
    fn now(&self) -> Instant {
        Instant(os::monotonic())
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock that all other code has to use")]
    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// The clock of a test's runtime that is paused: it stands still until all tasks wait.
#[cfg(test)]
#[derive(Debug)]
struct Paused(tokio::time::Instant);

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "it is the clock of tests in virtual time")]
impl Clock {
    /// Returns a clock in virtual time, which begins now.
    pub(crate) fn paused() -> Clock {
        Clock::new(Paused(tokio::time::Instant::now()))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "it is the clock of tests in virtual time")]
impl Time for Paused {
    fn now(&self) -> Instant {
        Instant::from_origin(self.0.elapsed())
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}
