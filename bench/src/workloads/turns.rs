//! The turns of one contender.

use std::time::Instant;

/// What one contender did in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// How many acquisitions were granted within the slice.
    pub(super) in_time: u64,
    /// How long each acquisition waited, in nanoseconds, including the one that was under way at the end.
    pub(super) waits: Vec<u64>,
    /// Why it gave up before the end.
    pub(super) error: Option<String>,
}

impl Turns {
    /// Counts a grant that has just come. It was asked for at `asked`, and the slice is over at `end`.
    pub(super) fn granted(&mut self, asked: Instant, end: Instant) {
        let now = Instant::now();
        self.waits.push(u64::try_from((now - asked).as_nanos()).unwrap_or(u64::MAX));
        self.in_time += u64::from(now <= end);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_grant_after_the_slice_has_a_wait_and_is_not_counted() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.granted(now, now + Duration::from_secs(60));
        while Instant::now() == now {}
        turns.granted(now, now);
        assert_eq!((turns.in_time, turns.waits.len()), (1, 2));
    }
}
