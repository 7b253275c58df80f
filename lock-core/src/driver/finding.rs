//! What `check` answers, and what it says of a server's clock: the question that every backend on a server has.

use std::time::Duration;

/// One answer of a check.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at: `reachable`, `rights`, `persistence`, …
    pub subject: &'static str,
    /// How it stands.
    pub level: Level,
    /// In words, with what to do where something is to be done.
    pub message: String,
}

impl Finding {
    /// What was found about `subject`.
    pub fn new(subject: &'static str, level: Level, message: impl Into<String>) -> Finding {
        Finding { subject, level, message: message.into() }
    }
}

/// How a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, with a limit that the message names.
    Warning,
    /// Locks will not work.
    Bad,
    /// The server would not say.
    Unknown,
}

/// How far a server's clock has gone ahead of ours. What it shows doesn't matter, how it goes does: leases end by it.
///
/// The default is that of a server which was only just met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Within this long.
    pub over: Duration,
    /// In microseconds; negative if it has fallen behind.
    pub micros: i64,
}

/// Within less than this, round trips would be taken for drift.
const SHORTEST_LOOK: Duration = Duration::from_secs(10);
const A_ROUND_TRIP: Duration = Duration::from_millis(50);

impl Drift {
    /// What `check` says of the server's clock: `Warning` if it has gone off by more than 1 % and 50 ms, `Unknown` before
    /// it has been watched for 10 s.
    pub fn finding(self) -> Finding {
        let Drift { over, micros } = self;
        if over < SHORTEST_LOOK {
            let young = "this connection is too young to tell how the server's clock goes";
            return Finding::new("clock", Level::Unknown, young);
        }
        let off = Duration::from_micros(micros.unsigned_abs());
        let direction = if micros < 0 { "behind" } else { "ahead" };
        let message = format!("the server's clock has gone {off:?} {direction} of ours within {over:?}");
        if off <= over / 100 + A_ROUND_TRIP {
            return Finding::new("clock", Level::Good, message);
        }
        let why = "it is set while locks are held, or goes too fast or too slow; leases are off by as much";
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
        assert!(behind.message.contains("has gone 2s behind of ours within 60s: "), "{}", behind.message);
        let ahead = Drift { over: Duration::from_secs(60), micros: 2_000_000 }.finding();
        assert!(ahead.message.contains("has gone 2s ahead of ours within 60s: "), "{}", ahead.message);
    }
}
