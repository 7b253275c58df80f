//! The servers' time. This is the one file with a wall clock: the servers of this crate are their own masters.

use std::ops::Add;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::Clock;
use tokio::sync::watch;

/// A reading of a server's clock, in microseconds since 1970. Never comparable with a client's own instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(u64);

impl ServerTime {
    /// The time this many microseconds after the beginning of 1970.
    pub const fn from_micros(micros: u64) -> ServerTime {
        ServerTime(micros)
    }

    /// Microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it isn't.
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

/// A server's clock: it starts at the machine's wall clock, goes on with a monotonic one, and can be set.
///
/// Cheap to clone; all clones are the same clock.
#[derive(Clone, Debug)]
pub struct ServerClock {
    clock: Clock,
    /// The server's time at the origin of `clock`, in microseconds. Signed, because a test may set any time.
    origin: Arc<watch::Sender<i64>>,
}

impl ServerClock {
    /// Starts at the machine's wall clock.
    pub fn system() -> ServerClock {
        ServerClock::new(Clock::system(), wall_clock())
    }

    /// Says `now` at this moment, and goes on as fast as `clock` does.
    pub fn new(clock: Clock, now: ServerTime) -> ServerClock {
        let origin = Arc::new(watch::Sender::new(origin(&clock, now)));
        ServerClock { clock, origin }
    }

    /// What it says now.
    pub fn now(&self) -> ServerTime {
        let micros = elapsed(&self.clock).saturating_add(*self.origin.borrow());
        ServerTime(u64::try_from(micros).unwrap_or(0))
    }

    /// Sets it, forward or back, as an operator or NTP would.
    pub fn set(&self, now: ServerTime) {
        self.origin.send_replace(origin(&self.clock, now));
    }

    /// Resolves when it says `at` or more, however it gets there. Cancel safe.
    pub async fn sleep_until(&self, at: ServerTime) {
        let mut set = self.origin.subscribe();
        while self.now() < at {
            tokio::select! {
                biased;
                // The sender lives in `self`: this can't fail.
                _ = set.changed() => {}
                () = self.clock.sleep(at.since(self.now())) => {}
            }
        }
    }
}

/// Microseconds since the origin of `clock`.
fn elapsed(clock: &Clock) -> i64 {
    i64::try_from(clock.now().since_origin().as_micros()).unwrap_or(i64::MAX)
}

fn origin(clock: &Clock, now: ServerTime) -> i64 {
    i64::try_from(now.0).unwrap_or(i64::MAX).saturating_sub(elapsed(clock))
}

#[allow(clippy::disallowed_methods, reason = "a server may know what time it is; see the top of this file")]
fn wall_clock() -> ServerTime {
    // Set before 1970, a clock starts there: only its pace matters.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ServerTime(0) + since
}
