//! The only clock of a client. It counts suspend, and it is passed in, so that a simulation can control it.

mod instant;
mod sleep;
mod timer_queue;
mod watchdog;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::os;

use sleep::Sleep;
use timer_queue::TimerQueue;

pub use instant::Instant;

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
///
/// [`Options::clock`](crate::Options::clock) sets another one than [`Clock::system`], for tests and simulations.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Clock, Options};
///
/// let options = Options::default().clock(Clock::tokio());
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    time: Arc<dyn Time>,
    timers: Timers,
    /// Notified when time was seen to jump ahead of the timers, as it does after a suspend.
    jumps: Arc<Notify>,
    /// Where those wait who sleep by the clock of a client. Without it, each has a timer of its own.
    queue: Option<TimerQueue>,
}

impl Clock {
    /// Returns the operating system's clock: `CLOCK_BOOTTIME` on Linux, because an ordinary monotonic clock stands
    /// still while a laptop or a virtual machine sleeps, and the server's clock doesn't.
    pub fn system() -> Clock {
        Clock::of(Arc::new(System), Timers::OfTokio)
    }

    /// Returns the clock of tokio's runtimes, for tests: it stands still while `tokio::time::pause` is in effect, and
    /// moves on with the runtime's timers and with `tokio::time::advance`.
    ///
    /// The backend `memory` has this clock already. It does not count the time in which the machine was
    /// suspended, so it is not for a client of a server in another process.
    ///
    /// ```
    /// # use lock_core as onelock;
    /// use std::time::Duration;
    ///
    /// use onelock::Clock;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let clock = Clock::tokio();
    /// let begin = clock.now();
    /// tokio::time::sleep(Duration::from_secs(3600)).await; // with paused time: over at once
    /// assert_eq!(clock.now().since(begin), Duration::from_secs(3600));
    /// # }
    /// ```
    pub fn tokio() -> Clock {
        Clock::of(Arc::new(Tokio::new()), Timers::OfTokio)
    }

    /// Makes a clock that shows the time of `time`.
    pub fn new(time: impl Time) -> Clock {
        Clock::of(Arc::new(time), Timers::OfTheTime)
    }

    fn of(time: Arc<dyn Time>, timers: Timers) -> Clock {
        Clock(Arc::new(Parts { time, timers, jumps: Arc::default(), queue: None }))
    }

    /// Returns the same clock with a timer queue for one client, whose task runs on `runtime` until the last clone of
    /// the clock is dropped.
    pub(crate) fn with_queue(&self, runtime: &Handle) -> Clock {
        let Parts { time, timers, jumps, .. } = &*self.0;
        let queue = Some(TimerQueue::start(runtime, self.clone()));
        Clock(Arc::new(Parts { time: time.clone(), timers: *timers, jumps: jumps.clone(), queue }))
    }

    /// Returns whether only a simulation or a test moves this clock.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.0.timers, Timers::OfTheTime)
    }

    /// Makes a timer if the clock's timers are tokio's. Panics, as tokio does, if the runtime has none.
    pub(crate) fn probe(&self) {
        if let Timers::OfTokio = self.0.timers {
            drop(self.0.time.timer(Duration::ZERO));
        }
    }

    /// Returns the current moment.
    pub fn now(&self) -> Instant {
        self.0.time.now()
    }

    /// Waits until `at`, also if that moment came while the machine was suspended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send {
        Sleep::until(self, at)
    }

    async fn sleep_alone(&self, at: Instant) {
        loop {
            // Made before the clock is read, so that it sees every jump from here on.
            let jump = self.0.jumps.notified();
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.time.timer(left.min(LONGEST_TIMER)) => {}
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

    /// Returns what `future` returns within `limit`; otherwise `None`. Then `future` has been dropped.
    ///
    /// Meant for the time limit of a call. By a clock that is no client's, this may return later if the
    /// machine is suspended in between.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `future` is.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        self.until(self.now() + limit, future).await
    }

    /// Polls `future` until `end`. Returns `None` if the end is reached first.
    pub(crate) async fn until<F: Future>(&self, end: Instant, future: F) -> Option<F::Output> {
        let over = match &self.0.queue {
            Some(_) => Sleep::until(self, end),
            None => Sleep::alone(self, self.0.time.timer(end.since(self.now()).min(LONGEST_TIMER))),
        };
        tokio::select! {
            biased;
            out = future => Some(out),
            () = over => None,
        }
    }

    /// Waits for `step`. If time has jumped ahead in the meantime, wakes every sleeper and returns by how much.
    pub(crate) async fn watch(&self, step: Duration) -> Option<Duration> {
        let before = self.now();
        self.0.time.timer(step).await;
        let late = self.now().since(before + step);
        // A busy executor is late too; waking all sleepers for that is harmless.
        let jumped = late > step;
        if jumped {
            self.0.jumps.notify_waiters();
        }
        jumped.then_some(late)
    }
}

/// The source of a clock's timers.
#[derive(Clone, Copy, Debug)]
enum Timers {
    /// From the tokio runtime that polls them.
    OfTokio,
    /// From the [`Time`] itself.
    OfTheTime,
}

/// The longest single timer; longer sleeps are chained.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
struct System;

impl Time for System {
    fn now(&self) -> Instant {
        Instant::from_origin(os::monotonic())
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock that all other code has to use")]
    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// tokio's time. It reads every runtime's clock, and never goes back between two of them.
#[derive(Debug)]
struct Tokio {
    origin: tokio::time::Instant,
    /// The latest moment that was read, in nanoseconds: a thread outside of the runtime does not see that its time has
    /// been moved on.
    latest: AtomicU64,
}

impl Tokio {
    #[allow(clippy::disallowed_methods, reason = "it is a clock that other code has to use")]
    fn new() -> Tokio {
        Tokio { origin: tokio::time::Instant::now(), latest: AtomicU64::new(0) }
    }
}

impl Time for Tokio {
    #[allow(clippy::disallowed_methods, reason = "it is a clock that other code has to use")]
    fn now(&self) -> Instant {
        let passed = tokio::time::Instant::now().saturating_duration_since(self.origin);
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        let latest = self.latest.fetch_max(passed, Ordering::AcqRel);
        Instant::of_nanos(passed.max(latest))
    }

    #[allow(clippy::disallowed_methods, reason = "it is a clock that other code has to use")]
    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn tokios_clock_pauses_and_advances_with_its_runtime() {
        let clock = Clock::tokio();
        let begin = clock.now();
        assert_eq!(clock.now(), begin);
        clock.sleep(HOUR).await;
        assert_eq!(clock.now().since(begin), HOUR);
        tokio::time::advance(HOUR).await;
        assert_eq!(clock.now().since(begin), HOUR * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_outside_sees_the_runtimes_time() {
        let clock = Clock::tokio();
        let begin = clock.now();
        clock.sleep(HOUR).await;
        assert_eq!(clock.now().since(begin), HOUR);
        let seen = std::thread::spawn(move || clock.now());
        assert!(seen.join().unwrap().since(begin) >= HOUR);
    }
}
