//! The server's clock, estimated from its answers. The deadline that an attempt carries is computed from it.

use std::time::Duration;

use super::call::Call;
use crate::clock::Instant;
use crate::driver::{Finding, Level};
use crate::human_duration::RoundedDuration;

/// The client's estimate of one server's clock.
///
/// It says nothing about another server's clock. Where a connection may lead to another server, each connection has its
/// own `ServerClock`.
///
/// The server's times are microseconds, counted from an origin that the server chooses.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    first: Reading,
    last: Reading,
}

/// The time that the server told, and the local moments around it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    server_time: i64,
    /// Before the question, where that is known.
    asked_at: Option<Instant>,
    /// After the answer.
    received_at: Instant,
}

impl ServerClock {
    /// Starts with the server's first answer, which told the time `server_time` and arrived at `received_at`.
    pub fn new(server_time: i64, received_at: Instant) -> ServerClock {
        ServerClock::starting_with(Reading { server_time, asked_at: None, received_at })
    }

    /// Starts with the server's first answer, which told the time `server_time`, arrived at `received_at`, and belongs
    /// to a question that was sent after `asked_at`.
    pub fn with_question(server_time: i64, asked_at: Instant, received_at: Instant) -> ServerClock {
        ServerClock::starting_with(Reading { server_time, asked_at: Some(asked_at), received_at })
    }

    fn starting_with(reading: Reading) -> ServerClock {
        ServerClock { first: reading, last: reading }
    }

    /// Records the time `server_time` of an answer that arrived at `received_at`.
    ///
    /// `received_at` is the moment *after* the answer, and not the one before the question. The server's clock then
    /// shows what [`at`](Self::at) returns, or a later time. Of two answers that arrived at the same moment, the one
    /// that was recorded later counts.
    pub fn hear(&mut self, server_time: i64, received_at: Instant) {
        self.note(Reading { server_time, asked_at: None, received_at });
    }

    /// Notes the server's time as [`hear`](Self::hear), from an answer whose question was sent after
    /// `asked_at`. Only from such an answer [`latest_at`](Self::latest_at) is known.
    pub fn hear_answer(&mut self, server_time: i64, asked_at: Instant, received_at: Instant) {
        self.note(Reading { server_time, asked_at: Some(asked_at), received_at });
    }

    fn note(&mut self, reading: Reading) {
        if reading.received_at >= self.last.received_at {
            self.last = reading;
        }
    }

    /// Returns what the server's clock shows at `moment`, or somewhat less. For a moment before the last answer,
    /// returns what that answer told.
    ///
    /// The rates of the two clocks may differ by 1 %. The older the last answer is, the further the result is behind.
    pub fn at(&self, moment: Instant) -> i64 {
        let Reading { server_time, received_at, .. } = self.last;
        let passed = moment.since(received_at);
        server_time.saturating_add(micros(passed - passed / 100))
    }

    /// Returns what the server's clock shows at `moment`, or somewhat more. For a moment before the last question,
    /// returns what its answer told. `None` if it is not known when the last answer was asked for.
    ///
    /// The rates of the two clocks may differ by 1 %. The server told a time of after the question, so the result is
    /// ahead by the time that the question took, and the further the older it is.
    pub fn latest_at(&self, moment: Instant) -> Option<i64> {
        let Reading { server_time, asked_at, .. } = self.last;
        let passed = moment.since(asked_at?);
        // A server that tells whole microseconds may have told almost one less.
        Some(server_time.saturating_add(micros(passed + passed / 100)).saturating_add(1))
    }

    /// Returns what the server's clock shows when a request arrives that is sent at `moment`, if the request
    /// takes as long as the last answer and its question did. For a moment before the last question, returns
    /// what its answer told.
    ///
    /// This is an estimate, and no bound: it assumes that the two clocks run at the same rate.
    pub fn on_arrival(&self, moment: Instant) -> i64 {
        let Reading { server_time, asked_at, received_at } = self.last;
        server_time.saturating_add(micros(moment.since(asked_at.unwrap_or(received_at))))
    }

    /// Returns the end of the call in the server's time, or a moment before it. The server refuses what arrives later.
    ///
    /// A result that is too early costs one more round trip, because the refusal tells the time. A result that is too
    /// late would let an attempt take the lock after its caller has gone.
    pub fn deadline(&self, call: &Call) -> i64 {
        let Reading { server_time, received_at, .. } = self.last;
        match call.ends() > received_at {
            true => self.at(call.ends()),
            // The call was over before the server told this time.
            false => server_time.saturating_sub(1),
        }
    }

    /// Returns how far the server's clock has drifted since its first answer.
    pub fn drift(&self) -> Drift {
        let over = self.last.received_at.since(self.first.received_at);
        Drift {
            over,
            micros: self.last.server_time.saturating_sub(self.first.server_time).saturating_sub(micros(over)),
        }
    }
}

/// By how much more time has passed on a server's clock than on ours. Leases end by the rate of that clock; the time
/// that it shows does not matter.
///
/// The default stands for a server of which there has been one answer only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drift {
    /// For how long the server's clock was observed, on our clock.
    pub over: Duration,
    /// The difference in microseconds; negative if the server's clock has fallen behind.
    pub micros: i64,
}

/// The shortest observation. In a shorter one, round trips would be taken for drift.
const SHORTEST_LOOK: Duration = Duration::from_secs(10);
const A_ROUND_TRIP: Duration = Duration::from_millis(50);

impl Drift {
    /// Makes the finding about the server's clock: `Warning` if it has drifted by more than 1 % and 50 ms, `Unknown`
    /// before it has been observed for 10 s.
    pub fn finding(self) -> Finding {
        let Drift { over, micros } = self;
        if over < SHORTEST_LOOK {
            let young = "this connection is too new to tell how fast the server's clock runs";
            return Finding::new("clock", Level::Unknown, young);
        }
        let off = Duration::from_micros(micros.unsigned_abs());
        let direction = if micros < 0 { "behind" } else { "ahead of" };
        let (shown, within) = (RoundedDuration(off), RoundedDuration(over));
        let message = format!("the server's clock has drifted {shown} {direction} ours within {within}");
        if off <= over / 100 + A_ROUND_TRIP {
            return Finding::new("clock", Level::Good, message);
        }
        let why = "it is set while locks are held, or it runs too fast or too slow; leases are off by the same time";
        Finding::new("clock", Level::Warning, format!("{message}: {why}"))
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
    const SERVER_START: i64 = 1_700_000_000 * SECOND;

    /// Our clock, in milliseconds.
    #[derive(Clone, Debug, Default)]
    struct ManualClock(Arc<AtomicU64>);

    impl ManualClock {
        fn advance(&self, time: Duration) {
            self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
        }

        fn call(&self) -> Call {
            Call::begin(&Clock::new(self.clone()), PATIENCE)
        }
    }

    impl Time for ManualClock {
        fn now(&self) -> Instant {
            Instant::from_origin(Duration::from_millis(self.0.load(Ordering::Relaxed)))
        }

        fn timer(&self, _: Duration) -> Timer {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_drifting_clock_puts_no_deadline_beyond_the_call() {
        for idle in [Duration::ZERO, Duration::from_millis(1), PATIENCE, HOUR, HOUR * 24 * 365] {
            let ours = ManualClock::default();
            let server = ServerClock::new(SERVER_START, ours.now());
            ours.advance(idle);
            let call = ours.call();
            let deadline = server.deadline(&call);
            let passes = i64::try_from((idle + PATIENCE).as_micros()).unwrap();
            // What the server's clock shows when the call is over: our clock ran 1 % faster, as fast, or 1 % slower.
            for ends in [passes - passes / 100, passes, passes + passes / 100] {
                assert!(
                    deadline <= SERVER_START + ends,
                    "idle for {idle:?}: {} us too late",
                    deadline - SERVER_START - ends
                );
            }
            assert_eq!(deadline, SERVER_START + passes - passes / 100, "not earlier than necessary");
        }
    }

    #[test]
    fn a_drifting_clock_never_puts_the_latest_time_behind() {
        for (idle, takes) in
            [(Duration::ZERO, PATIENCE), (PATIENCE, Duration::from_millis(1)), (HOUR, PATIENCE)]
        {
            let ours = ManualClock::default();
            let asked_at = ours.now();
            ours.advance(takes);
            let server = ServerClock::with_question(SERVER_START, asked_at, ours.now());
            ours.advance(idle);
            let latest = server.latest_at(ours.now()).unwrap();
            let passed = i64::try_from((takes + idle).as_micros()).unwrap();
            // The server told its time right after the question, and runs 1 % faster than our clock.
            let shown = SERVER_START + passed + passed / 100;
            assert!(latest >= shown, "{takes:?}, idle for {idle:?}: {} us behind", shown - latest);
            assert_eq!(latest, shown + 1, "not later than necessary");
            assert!(server.at(ours.now()) <= latest);
        }
    }

    #[test]
    fn the_latest_time_needs_the_last_answers_question() {
        let ours = ManualClock::default();
        let mut server = ServerClock::new(SERVER_START, ours.now());
        assert_eq!(server.latest_at(ours.now()), None, "it may have been asked for at any time before");
        let asked_at = ours.now();
        ours.advance(PATIENCE);
        server.hear_answer(SERVER_START + SECOND, asked_at, ours.now());
        assert_eq!(server.latest_at(asked_at), Some(SERVER_START + SECOND + 1));
        assert_eq!(server.at(ours.now()), SERVER_START + SECOND, "the answer counts from its arrival");
        server.hear_answer(SERVER_START, asked_at, asked_at);
        assert_eq!(server.at(ours.now()), SERVER_START + SECOND, "an older answer that is noted after it");
        server.hear(SERVER_START + 2 * SECOND, ours.now());
        assert_eq!(server.latest_at(ours.now()), None);
    }

    #[test]
    fn a_requests_arrival_is_estimated_from_the_last_trip() {
        let ours = ManualClock::default();
        let mut server = ServerClock::new(SERVER_START, ours.now());
        assert_eq!(
            server.on_arrival(ours.now()),
            SERVER_START,
            "how long the first question took is not known"
        );
        let asked_at = ours.now();
        ours.advance(PATIENCE);
        server.hear_answer(SERVER_START, asked_at, ours.now());
        let took = i64::try_from(PATIENCE.as_micros()).unwrap();
        assert_eq!(server.on_arrival(ours.now()), SERVER_START + took);
        ours.advance(HOUR);
        assert_eq!(
            server.on_arrival(ours.now()),
            SERVER_START + took + 3600 * SECOND,
            "without an allowance"
        );
        assert_eq!(server.on_arrival(asked_at), SERVER_START);
    }

    #[test]
    fn a_call_over_before_the_answer_has_no_time() {
        let ours = ManualClock::default();
        let call = ours.call();
        ours.advance(PATIENCE);
        let mut server = ServerClock::new(SERVER_START, ours.now());
        assert_eq!(server.deadline(&call), SERVER_START - 1);
        ours.advance(HOUR);
        server.hear(SERVER_START, ours.now());
        assert_eq!(server.deadline(&call), SERVER_START - 1);
    }

    #[test]
    fn the_newest_answer_beats_older_ones_noted_later() {
        let ours = ManualClock::default();
        let mut server = ServerClock::new(SERVER_START, ours.now());
        let before = ours.now();
        ours.advance(PATIENCE);
        // The server's clock was set back in between.
        server.hear(SERVER_START - 60 * SECOND, ours.now());
        server.hear(SERVER_START, before);
        assert_eq!(server.deadline(&ours.call()), SERVER_START - 60 * SECOND + 4_950_000);
        server.hear(SERVER_START, ours.now());
        assert_eq!(
            server.deadline(&ours.call()),
            SERVER_START + 4_950_000,
            "of two answers at the same moment, the one recorded later counts"
        );
    }

    #[test]
    fn the_server_clock_advances_against_our_clock() {
        let ours = ManualClock::default();
        let mut server = ServerClock::new(SERVER_START, ours.now());
        assert_eq!(server.drift(), Drift::default());
        ours.advance(HOUR);
        assert_eq!(server.drift(), Drift::default(), "the server was not asked in between");
        server.hear(SERVER_START + 3601 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR, micros: SECOND });
        ours.advance(HOUR);
        server.hear(SERVER_START + 3600 * SECOND, ours.now());
        assert_eq!(server.drift(), Drift { over: HOUR * 2, micros: -3600 * SECOND });
    }

    #[test]
    fn a_clock_is_judged_by_how_it_goes() {
        let level = |millis, micros| Drift { over: Duration::from_millis(millis), micros }.finding().level;
        assert_eq!(Drift::default().finding().level, Level::Unknown);
        assert_eq!(level(9_999, 5_000_000), Level::Unknown);
        assert_eq!(level(10_000, 150_000), Level::Good);
        assert_eq!(level(10_000, 150_001), Level::Warning);
        assert_eq!(level(60_000, -650_000), Level::Good);
        assert_eq!(level(60_000, -650_001), Level::Warning);
    }

    #[test]
    fn a_wrong_clock_is_reported_with_its_error() {
        let behind = Drift { over: Duration::from_secs(60), micros: -2_000_000 }.finding();
        assert!(behind.message.contains("has drifted 2 s behind ours within 60 s: "), "{}", behind.message);
        let ahead = Drift { over: Duration::from_secs(60), micros: 2_000_000 }.finding();
        assert!(ahead.message.contains("has drifted 2 s ahead of ours within 60 s: "), "{}", ahead.message);
    }
}
