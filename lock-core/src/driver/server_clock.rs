//! The server's clock, estimated from its answers. The deadline that an attempt carries is computed from it.

use std::time::Duration;

use super::Drift;
use crate::call::Call;
use crate::clock::Instant;

/// What is known of one server's clock.
///
/// It is worthless for another server. Where a connection may lead to another server, each connection has its own
/// `ServerClock`.
///
/// The server's times are microseconds, counted from an origin that the server chooses.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    first: Reading,
    last: Reading,
}

/// The time that the server told, and the local moment after its answer.
#[derive(Clone, Copy, Debug)]
struct Reading {
    told: i64,
    heard: Instant,
}

impl ServerClock {
    /// Starts with the server's first answer, which told the time `told` and arrived at `heard`.
    pub fn new(told: i64, heard: Instant) -> ServerClock {
        let reading = Reading { told, heard };
        ServerClock { first: reading, last: reading }
    }

    /// Records the time `told` of an answer that arrived at `heard`.
    ///
    /// `heard` is the moment *after* the answer, and not the one before the question. The server's clock then shows
    /// what [`at`](Self::at) returns, or a later time. Of two answers that arrived at the same moment, the one that was
    /// recorded later counts.
    pub fn hear(&mut self, told: i64, heard: Instant) {
        if heard >= self.last.heard {
            self.last = Reading { told, heard };
        }
    }

    /// Returns what the server's clock shows at `moment`, or somewhat less. For a moment before the last answer,
    /// returns what that answer told.
    ///
    /// The rates of the two clocks may differ by 1 %. The older the last answer is, the further the result is behind.
    pub fn at(&self, moment: Instant) -> i64 {
        let Reading { told, heard } = self.last;
        let passed = moment.since(heard);
        told.saturating_add(micros(passed - passed / 100))
    }

    /// Returns the end of the call in the server's time, or a moment before it. The server refuses what arrives later.
    ///
    /// A result that is too early costs one more round trip, because the refusal tells the time. A result that is too
    /// late would let an attempt take the lock after its caller has gone.
    pub fn deadline(&self, call: &Call) -> i64 {
        let Reading { told, heard } = self.last;
        match call.ends() > heard {
            true => self.at(call.ends()),
            // The call was over before the server told this time.
            false => told.saturating_sub(1),
        }
    }

    /// Returns how far the server's clock has drifted since its first answer.
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
    /// The server's time when our clock begins.
    const TOLD: i64 = 1_700_000_000 * SECOND;

    /// Our clock, in milliseconds.
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
            // What the server's clock shows when the call is over: our clock ran 1 % faster, as fast, or 1 % slower.
            for ends in [passes - passes / 100, passes, passes + passes / 100] {
                assert!(deadline <= TOLD + ends, "idle for {idle:?}: {} us too late", deadline - TOLD - ends);
            }
            assert_eq!(deadline, TOLD + passes - passes / 100, "not earlier than necessary");
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
        // The server's clock was set back in between.
        server.hear(TOLD - 60 * SECOND, ours.now());
        server.hear(TOLD, before);
        assert_eq!(server.deadline(&ours.call()), TOLD - 60 * SECOND + 4_950_000);
        server.hear(TOLD, ours.now());
        assert_eq!(
            server.deadline(&ours.call()),
            TOLD + 4_950_000,
            "of two answers at the same moment, the one recorded later counts"
        );
    }

    #[test]
    fn it_has_gone_as_far_as_it_was_told_against_our_clock() {
        let ours = Ours::default();
        let mut server = ServerClock::new(TOLD, ours.now());
        assert_eq!(server.drift(), Drift::default());
        ours.passes(HOUR);
        assert_eq!(server.drift(), Drift::default(), "the server was not asked in between");
        server.hear(TOLD + 3601 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR, micros: SECOND });
        ours.passes(HOUR);
        server.hear(TOLD + 3600 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR * 2, micros: -3600 * SECOND });
    }
}
