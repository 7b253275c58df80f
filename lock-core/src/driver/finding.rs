//! The answers of `check`, and the finding about a server's clock, which every backend with a server needs.

use std::time::Duration;

/// One answer of a check.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was checked: `reachable`, `rights`, `persistence`, …
    pub subject: &'static str,
    /// The result.
    pub level: Level,
    /// The result in words, with what to do if something has to be done.
    pub message: String,
}

impl Finding {
    /// Makes a finding about `subject`.
    pub fn new(subject: &'static str, level: Level, message: impl Into<String>) -> Finding {
        Finding { subject, level, message: message.into() }
    }
}

/// The result of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In order.
    Good,
    /// Works, with a limit that the message names.
    Warning,
    /// Locks will not work.
    Bad,
    /// The server does not say.
    Unknown,
}

/// By how much more time has passed on a server's clock than on ours. Leases end by the rate of that clock; the time
/// that it shows does not matter.
///
/// The default stands for a server of which there has been one answer only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let message = format!("the server's clock has drifted {off:?} {direction} ours within {over:?}");
        if off <= over / 100 + A_ROUND_TRIP {
            return Finding::new("clock", Level::Good, message);
        }
        let why = "it is set while locks are held, or it runs too fast or too slow; leases are off by the same time";
        Finding::new("clock", Level::Warning, format!("{message}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_clock_that_went_off_is_told_by_how_much() {
        let behind = Drift { over: Duration::from_secs(60), micros: -2_000_000 }.finding();
        assert!(behind.message.contains("has drifted 2s behind ours within 60s: "), "{}", behind.message);
        let ahead = Drift { over: Duration::from_secs(60), micros: 2_000_000 }.finding();
        assert!(ahead.message.contains("has drifted 2s ahead of ours within 60s: "), "{}", ahead.message);
    }
}
