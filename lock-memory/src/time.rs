//! The servers' time. This is the only file with a wall clock: a server has a clock of its own.

use std::ops::Add;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::Clock;
use tokio::sync::watch;

/// A reading of a server's clock, in microseconds since 1970. It is never comparable with a client's own instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(u64);

impl ServerTime {
    /// Returns the time this many microseconds after the beginning of 1970.
    pub const fn from_micros(micros: u64) -> ServerTime {
        ServerTime(micros)
    }

    /// Returns the microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns how long after `earlier` this is; zero if it is not later.
    pub fn since(self, earlier: ServerTime) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for ServerTime {
    type Output = ServerTime;

    fn add(self, wait: Duration) -> ServerTime {
        ServerTime(self.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// A server's clock: it starts at the machine's wall clock, goes on with tokio's time, and can be set.
///
/// All clients of the server have its rate, unless their options set another clock. With tokio's paused time, server and
/// clients stand still together.
///
/// Cheap to clone; all clones are the same clock.
#[derive(Clone, Debug)]
pub struct ServerClock {
    clock: Clock,
    /// The server's time at the origin of `clock`, in microseconds. Signed, because a test may set any time.
    origin: Arc<watch::Sender<i64>>,
}

impl ServerClock {
    /// Creates a clock that starts at the machine's wall clock, and then goes as fast as [`Clock::tokio`].
    pub fn system() -> ServerClock {
        ServerClock::new(Clock::tokio(), wall_clock())
    }

    /// Creates a clock that shows `now` at this moment, and then goes as fast as `clock`.
    pub fn new(clock: Clock, now: ServerTime) -> ServerClock {
        let origin = Arc::new(watch::Sender::new(origin(&clock, now)));
        ServerClock { clock, origin }
    }

    /// Returns the clock's time.
    pub fn now(&self) -> ServerTime {
        let micros = elapsed(&self.clock).saturating_add(*self.origin.borrow());
        ServerTime(u64::try_from(micros).unwrap_or(0))
    }

    /// Returns what the clock goes on with.
    pub(crate) fn rate(&self) -> &Clock {
        &self.clock
    }

    /// Sets the clock, forward or back, as an operator or NTP would.
    pub fn set(&self, now: ServerTime) {
        self.origin.send_replace(origin(&self.clock, now));
    }

    /// Resolves when the clock shows `at` or more, whether it went on or was set.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing remains of it.
    pub async fn sleep_until(&self, at: ServerTime) {
        let mut set = self.origin.subscribe();
        while self.now() < at {
            tokio::select! {
                biased;
                // This can't fail, because `self` keeps the sender.
                _ = set.changed() => {}
                () = self.clock.sleep(at.since(self.now())) => {}
            }
        }
    }
}

/// Returns the microseconds since the origin of `clock`.
fn elapsed(clock: &Clock) -> i64 {
    i64::try_from(clock.now().since_origin().as_micros()).unwrap_or(i64::MAX)
}

fn origin(clock: &Clock, now: ServerTime) -> i64 {
    i64::try_from(now.0).unwrap_or(i64::MAX).saturating_sub(elapsed(clock))
}

#[allow(clippy::disallowed_methods, reason = "a server has a wall clock; see the top of this file")]
fn wall_clock() -> ServerTime {
    // A wall clock that is set before 1970 counts as 1970: only the rate matters.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ServerTime(0) + since
}
