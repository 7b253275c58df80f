//! The server's clock, as its answers tell it: the deadline that an attempt carries is made of that.

use std::time::Duration;

use super::Drift;
use crate::call::Call;
use crate::clock::Instant;

/// What is known of a server's clock. Of one server: what another server's clock says is nothing to it, and where a
/// connection may lead to another server, each connection has one of these.
///
/// The server's times are microseconds since whatever it counts from.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    first: Reading,
    last: Reading,
}

/// What the server said, and the moment after its answer.
#[derive(Clone, Copy, Debug)]
struct Reading {
    told: i64,
    heard: Instant,
}

impl ServerClock {
    /// A server whose first answer, which was here at `heard`, told this time.
    pub fn new(told: i64, heard: Instant) -> ServerClock {
        let reading = Reading { told, heard };
        ServerClock { first: reading, last: reading }
    }

    /// Takes note of the time that an answer told which was here at `heard`: the moment *after* it, and not the one
    /// before its question. Then the server's clock stands where [`at`](Self::at) takes it to stand, or further. Of two
    /// answers that come at the same time the later one counts, in whichever order they are noted.
    pub fn hear(&mut self, told: i64, heard: Instant) {
        if heard >= self.last.heard {
            self.last = Reading { told, heard };
        }
    }

    /// What the server's clock shows at a moment of ours, or somewhat less: of a moment before the last answer, what
    /// that told.
    ///
    /// The two clocks may go at rates that differ by 1 %, so the older that answer, the further behind is this.
    pub fn at(&self, moment: Instant) -> i64 {
        let Reading { told, heard } = self.last;
        let passed = moment.since(heard);
        told.saturating_add(micros(passed - passed / 100))
    }

    /// The end of the call by the server's clock, or a moment before it: what comes later is refused.
    ///
    /// Too early costs one more round trip, because the refusal tells the time. Too late would let an attempt take the
    /// lock when its caller has gone.
    pub fn deadline(&self, call: &Call) -> i64 {
        let Reading { told, heard } = self.last;
        match call.ends() > heard {
            true => self.at(call.ends()),
            // It was over before the server told this.
            false => told.saturating_sub(1),
        }
    }

    /// How the server's clock has gone since its first answer.
    pub fn drift(&self) -> Drift {
        let over = self.last.heard.since(self.first.heard);
        Drift { over, micros: self.last.told.saturating_sub(self.first.told).saturating_sub(micros(over)) }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::clock::{Clock, Time, Timer};

    const SECOND: i64 = 1_000_000;
    const HOUR: Duration = Duration::from_secs(3600);
    const PATIENCE: Duration = Duration::from_secs(5);
    /// The server's time when ours begins.
    const TOLD: i64 = 1_700_000_000 * SECOND;

    /// Ours, in milliseconds.
    #[derive(Clone, Debug, Default)]
    struct Ours(Arc<AtomicU64>);

    impl Ours {
        fn passes(&self, time: Duration) {
            self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
        }

        fn call(&self) -> Call {
            Call::begin(&Clock::new(self.clone()), PATIENCE)
        }
    }

    impl Time for Ours {
        fn now(&self) -> Instant {
            Instant::from_origin(Duration::from_millis(self.0.load(Ordering::Relaxed)))
        }

        fn timer(&self, _: Duration) -> Timer {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_deadline_is_never_beyond_the_call_though_our_clock_goes_too_fast_or_too_slow() {
        for idle in [Duration::ZERO, Duration::from_millis(1), PATIENCE, HOUR, HOUR * 24 * 365] {
            let ours = Ours::default();
            let server = ServerClock::new(TOLD, ours.now());
            ours.passes(idle);
            let call = ours.call();
            let deadline = server.deadline(&call);
            let passes = i64::try_from((idle + PATIENCE).as_micros()).unwrap();
            // What the server's clock shows when the call is over: ours went 1 % faster than it, as fast, or slower.
            for ends in [passes - passes / 100, passes, passes + passes / 100] {
                assert!(deadline <= TOLD + ends, "{idle:?}: {} us too late", deadline - TOLD - ends);
            }
            assert_eq!(deadline, TOLD + passes - passes / 100, "and not earlier than need be");
        }
    }

    #[test]
    fn a_call_that_was_over_before_the_answer_has_no_time_left() {
        let ours = Ours::default();
        let call = ours.call();
        ours.passes(PATIENCE);
        let mut server = ServerClock::new(TOLD, ours.now());
        assert_eq!(server.deadline(&call), TOLD - 1);
        ours.passes(HOUR);
        server.hear(TOLD, ours.now());
        assert_eq!(server.deadline(&call), TOLD - 1);
    }

    #[test]
    fn the_newest_answer_counts_and_no_older_one_that_is_noted_after_it() {
        let ours = Ours::default();
        let mut server = ServerClock::new(TOLD, ours.now());
        let before = ours.now();
        ours.passes(PATIENCE);
        // Set back meanwhile.
        server.hear(TOLD - 60 * SECOND, ours.now());
        server.hear(TOLD, before);
        assert_eq!(server.deadline(&ours.call()), TOLD - 60 * SECOND + 4_950_000);
        server.hear(TOLD, ours.now());
        assert_eq!(
            server.deadline(&ours.call()),
            TOLD + 4_950_000,
            "in the same moment: the one noted later"
        );
    }

    #[test]
    fn it_has_gone_as_far_as_it_was_told_against_our_clock() {
        let ours = Ours::default();
        let mut server = ServerClock::new(TOLD, ours.now());
        assert_eq!(server.drift(), Drift::default());
        ours.passes(HOUR);
        assert_eq!(server.drift(), Drift::default(), "it was not asked");
        server.hear(TOLD + 3601 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR, micros: SECOND });
        ours.passes(HOUR);
        server.hear(TOLD + 3600 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR * 2, micros: -3600 * SECOND });
    }
}
