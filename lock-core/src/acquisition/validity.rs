//! The time for which a lock is certainly held. The margin is subtracted here, and nowhere else.

use std::time::Duration;

use crate::clock::Instant;
use crate::ending::LossReason;

/// Until when a lock is certainly held, as its claim tells its guards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) valid_until: Instant,
    /// Why the lock is lost when `valid_until` is reached.
    pub(crate) at_end: LossReason,
    pub(crate) lost: Option<LossReason>,
}

impl Validity {
    /// Describes a lock that is certain until `valid_until`, or until `max_hold` is over, if that comes first.
    pub(super) fn new(valid_until: Instant, max_hold_ends: Option<Instant>) -> Validity {
        match max_hold_ends {
            Some(end) if valid_until >= end => {
                Validity { valid_until: end, at_end: LossReason::MaxHold, lost: None }
            }
            _ => Validity { valid_until, at_end: LossReason::Expired, lost: None },
        }
    }

    /// Returns why the lock is lost at the moment `now`, if it is.
    pub(crate) fn loss(self, now: Instant) -> Option<LossReason> {
        let Validity { valid_until, at_end, lost } = self;
        lost.or_else(|| (valid_until <= now).then_some(at_end))
    }
}

/// Returns the part of a lease to rely on, of which `valid_for` is left. The rates of two clocks differ by up to 1 %,
/// also during the `age` that the lease had before; and servers round to the millisecond.
pub(crate) fn less_margin(valid_for: Duration, age: Duration) -> Duration {
    let margin = valid_for.saturating_add(age) / 100;
    valid_for.saturating_sub(margin).saturating_sub(Duration::from_millis(2))
}

/// Returns the length of a lease of which `valid_for` remains after the margin.
pub(super) fn with_margin(valid_for: Duration) -> Duration {
    valid_for.saturating_add(valid_for / 50).saturating_add(Duration::from_millis(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_lease_with_margin_is_certain_as_requested() {
        for valid_for in [ms(0), ms(1), ms(98), ms(3_000), ms(30_000), ms(24 * 3_600_000)] {
            assert!(less_margin(with_margin(valid_for), Duration::ZERO) >= valid_for, "{valid_for:?}");
        }
        assert_eq!(
            less_margin(ms(1), ms(0)),
            Duration::ZERO,
            "nothing is certain of a lease shorter than the margin"
        );
    }

    #[test]
    fn the_first_of_deadline_and_longest_hold_ends_it() {
        let at = |millis| Instant::from_origin(ms(millis));
        for (max_hold_ends, ends, at_end) in [
            (None, 1000, LossReason::Expired),
            (Some(at(1001)), 1000, LossReason::Expired),
            (Some(at(1000)), 1000, LossReason::MaxHold),
            (Some(at(700)), 700, LossReason::MaxHold),
        ] {
            let validity = Validity::new(at(1000), max_hold_ends);
            assert_eq!((validity.valid_until, validity.loss(at(ends - 1))), (at(ends), None));
            assert_eq!(validity.loss(at(ends)), Some(at_end));
            let revoked = Validity { lost: Some(LossReason::Revoked), ..validity };
            assert_eq!(revoked.loss(at(ends)), Some(LossReason::Revoked), "what is lost keeps its reason");
        }
    }
}
