//! Periods, which divide the server's time into slots: work that is done once per period is done once in each slot.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::human_duration::HumanDuration;

/// A moment by a server's clock, in microseconds since the beginning of 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(i64);

impl UnixTime {
    /// Returns the moment this many microseconds after the beginning of 1970; before it, if there are less than zero.
    pub fn from_micros(micros: i64) -> UnixTime {
        UnixTime(micros)
    }

    /// Returns the microseconds since the beginning of 1970.
    pub fn as_micros(self) -> i64 {
        self.0
    }
}

/// The period of work: it is done once in each slot of this length.
///
/// The slots follow each other without a gap. One of them begins with the year 1970 (UTC), or at the offset after that.
/// A period of a day begins at midnight UTC, and with an offset of 3 h at 3 o'clock UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    micros: i64,
    offset: i64,
}

impl Period {
    /// Returns the period of this length: whole microseconds, from 1 s to a hundred years. Each backend has an upper
    /// bound of its own: the longest ttl that it allows.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for another length.
    pub fn every(length: Duration) -> Result<Period> {
        let micros = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        if !(SHORTEST..=LONGEST).contains(&length) || Duration::from_micros(micros.unsigned_abs()) != length {
            return Err(Error::invalid(format!(
                "a period is of whole microseconds, from {} to a hundred years, and not {}",
                HumanDuration(SHORTEST),
                HumanDuration(length)
            )));
        }
        Ok(Period { micros, offset: 0 })
    }

    /// Returns the same period, whose slots begin this much later: less than its length, in whole microseconds.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for another offset.
    pub fn with_offset(self, offset: Duration) -> Result<Period> {
        let micros = i64::try_from(offset.as_micros()).unwrap_or(i64::MAX);
        if offset >= self.length() || Duration::from_micros(micros.unsigned_abs()) != offset {
            return Err(Error::invalid(format!(
                "an offset is of whole microseconds and shorter than the period, which is {}, and not {}",
                HumanDuration(self.length()),
                HumanDuration(offset)
            )));
        }
        Ok(Period { offset: micros, ..self })
    }

    /// Returns the length of a slot.
    pub fn length(self) -> Duration {
        Duration::from_micros(self.micros.unsigned_abs())
    }

    /// Returns how long after the beginning of 1970 a slot begins. [`with_offset`](Self::with_offset) sets it.
    pub fn offset(self) -> Duration {
        Duration::from_micros(self.offset.unsigned_abs())
    }

    /// Returns the slot that `now` is in.
    pub(crate) fn slot_at(self, now: UnixTime) -> Slot {
        // In 128 bits no time of a server overflows.
        let (length, offset) = (i128::from(self.micros), i128::from(self.offset));
        let number = (i128::from(now.0) - offset).div_euclid(length);
        Slot { ends: (number + 1) * length + offset }
    }
}

/// One slot of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// When the next slot begins, in microseconds since the beginning of 1970.
    ends: i128,
}

impl Slot {
    /// Returns how much of the slot is left at `now`; `None` if it is over. At most the length of the slot, unless the
    /// clock was set back to before its beginning.
    pub(crate) fn left(self, now: UnixTime) -> Option<Duration> {
        let left = self.ends - i128::from(now.0);
        // What is longer than any time that can be told is that long.
        (left > 0).then(|| Duration::from_micros(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

/// In a shorter slot, the answers of a server far away take up too much of it.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: Duration = Duration::from_secs(3600);

    fn at(micros: i64) -> UnixTime {
        UnixTime::from_micros(micros)
    }

    /// Returns when the slot of this moment ends, in microseconds.
    fn ends(period: Period, now: i64) -> i128 {
        let slot = period.slot_at(at(now));
        let left = slot.left(at(now)).expect("a moment is before the end of its slot");
        assert!(left <= period.length(), "{left:?} at {now}");
        slot.ends
    }

    #[test]
    fn slots_begin_with_the_epoch_and_follow_each_other() {
        let hourly = Period::every(HOUR).unwrap();
        for (now, ends_at) in [
            (0, 3600),
            (3600 * SECOND - 1, 3600),
            (3600 * SECOND, 7200),
            // 2026-11-26 05:06:17 UTC.
            (1_795_669_577 * SECOND, 1_795_672_800),
        ] {
            assert_eq!(ends(hourly, now), i128::from(ends_at * SECOND), "at {now}");
        }
    }

    // Proves: slots
    #[test]
    fn an_offset_moves_each_slot() {
        let hourly = Period::every(HOUR).unwrap().with_offset(Duration::from_secs(300)).unwrap();
        for (now, ends_at) in [(0, 300), (300 * SECOND - 1, 300), (300 * SECOND, 3900), (3900 * SECOND, 7500)]
        {
            assert_eq!(ends(hourly, now), i128::from(ends_at * SECOND), "at {now}");
        }
        assert_eq!((hourly.length(), hourly.offset()), (HOUR, Duration::from_secs(300)));
    }

    // Proves: slots
    #[test]
    fn before_the_epoch_slots_are_as_after_it() {
        let hourly = Period::every(HOUR).unwrap();
        for (now, ends_at) in [(-1, 0), (-3600 * SECOND, 0), (-3600 * SECOND - 1, -3600)] {
            assert_eq!(ends(hourly, now), i128::from(ends_at * SECOND), "at {now}");
        }
    }

    #[test]
    fn no_time_of_a_server_overflows() {
        for length in [SHORTEST, HOUR, LONGEST] {
            let period =
                Period::every(length).unwrap().with_offset(length - Duration::from_micros(1)).unwrap();
            for now in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
                ends(period, now);
            }
            let slot = period.slot_at(at(i64::MIN));
            assert_eq!(slot.left(at(i64::MAX)), None);
            // As far back as a clock can be set: the difference is still a time.
            assert!(period.slot_at(at(i64::MAX)).left(at(i64::MIN)).is_some());
        }
    }

    #[test]
    fn a_slot_is_over_at_its_end() {
        let slot = Period::every(HOUR).unwrap().slot_at(at(0));
        assert_eq!(slot.left(at(3600 * SECOND - 1)), Some(Duration::from_micros(1)));
        assert_eq!(slot.left(at(3600 * SECOND)), None);
        assert_eq!(slot.left(at(3600 * SECOND + 1)), None);
    }

    #[test]
    fn lengths_and_offsets_that_make_no_slots_are_refused() {
        let year = Duration::from_secs(365 * 24 * 3600);
        for bad in
            [Duration::ZERO, Duration::from_millis(999), SHORTEST + Duration::from_nanos(1), year * 101]
        {
            assert!(Period::every(bad).is_err(), "{bad:?}");
        }
        assert!(Period::every(Duration::MAX).is_err());
        let hourly = Period::every(HOUR).unwrap();
        for bad in [HOUR, HOUR * 2, Duration::from_nanos(1), Duration::MAX] {
            assert!(hourly.with_offset(bad).is_err(), "{bad:?}");
        }
        assert!(hourly.with_offset(HOUR - Duration::from_micros(1)).is_ok());
    }
}
