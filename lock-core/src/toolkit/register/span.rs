//! The server's time, as far as it is known.

use std::time::Duration;

use crate::clock::Instant;
use crate::toolkit::{Call, ServerClock};

/// A moment by the server's clock, in microseconds: not before `from`, and not after `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: i64,
    pub(super) by: i64,
}

impl Span {
    /// A moment that is known to be this one.
    pub(super) fn exactly(moment: i64) -> Span {
        Span { from: moment, by: moment }
    }

    pub(super) fn width(self) -> Duration {
        duration(self.by.saturating_sub(self.from))
    }

    /// Returns the time so much later.
    pub(super) fn plus(self, micros: i64) -> Span {
        Span { from: self.from.saturating_add(micros), by: self.by.saturating_add(micros) }
    }

    /// Returns this moment, or `least` if that is later.
    pub(super) fn at_least(self, least: i64) -> Span {
        Span { from: self.from.max(least), by: self.by.max(least) }
    }

    /// Returns how long after `earlier` this is, or somewhat less.
    pub(super) fn surely_since(self, earlier: Span) -> Duration {
        duration(self.from.saturating_sub(earlier.by))
    }

    /// Returns how long after `earlier` this is, or somewhat more.
    pub(super) fn at_most_since(self, earlier: Span) -> Duration {
        duration(self.by.saturating_sub(earlier.from))
    }
}

/// The server's time during one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When the call began.
    pub(super) began: Span,
    /// When it looked.
    pub(super) now: Span,
    /// When it has to be over, or a moment before.
    pub(super) deadline: i64,
}

impl Times {
    /// Returns the times of `call`, now.
    pub(super) fn of(call: &Call, clock: &ServerClock, resolution: Duration) -> Times {
        let at = |moment| span(clock, moment, resolution);
        // A stamp is rounded down: it may be that much less than the time of the write.
        let deadline = clock.deadline(call).saturating_sub(micros(resolution));
        Times { began: at(call.began()), now: at(call.clock().now()), deadline }
    }
}

/// Returns what the clock shows at `moment`.
pub(super) fn span(clock: &ServerClock, moment: Instant, resolution: Duration) -> Span {
    let latest = clock.latest_at(moment).map_or(i64::MAX, |latest| latest.saturating_add(micros(resolution)));
    Span { from: clock.at(moment), by: latest }
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns this many microseconds; zero if there are fewer.
pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
