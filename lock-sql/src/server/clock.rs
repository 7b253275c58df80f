//! How the server's clock goes. What matters is not what it shows: leases end by it.

use std::time::Duration;

use lock_core::driver::{Finding, Level};

use super::finding;

/// By how much the server's clock has gone ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drift {
    /// Within this long.
    pub(crate) over: Duration,
    /// In microseconds; negative if it has fallen behind.
    pub(crate) micros: i64,
}

/// Below it round trips would be taken for drift.
const SHORTEST_LOOK: Duration = Duration::from_secs(10);
const A_ROUND_TRIP: Duration = Duration::from_millis(50);

impl Drift {
    /// What `check` says of it.
    pub(crate) fn finding(self) -> Finding {
        let Drift { over, micros } = self;
        let off = Duration::from_micros(micros.unsigned_abs());
        let direction = if micros < 0 { "behind" } else { "ahead" };
        let message = format!("the server's clock has gone {off:?} {direction} of ours within {over:?}");
        match over {
            over if over < SHORTEST_LOOK => finding(
                "clock",
                Level::Unknown,
                "this connection is too young to tell how the server's clock goes",
            ),
            over if off > over / 100 + A_ROUND_TRIP => finding(
                "clock",
                Level::Warning,
                format!(
                    "{message}: it is set while locks are held, or goes too fast or too slow; leases are off by as much"
                ),
            ),
            _ => finding("clock", Level::Good, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_how_it_goes() {
        let level = |seconds, micros| Drift { over: Duration::from_secs(seconds), micros }.finding().level;
        assert_eq!(level(1, 0), Level::Unknown);
        assert_eq!(level(60, 1_000), Level::Good);
        assert_eq!(level(60, -2_000_000), Level::Warning);
        assert_eq!(level(60, 2_000_000), Level::Warning);
    }
}
