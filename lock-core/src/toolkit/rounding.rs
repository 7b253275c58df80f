//! Ttls in the units in which servers count, rounded up: a lease is never shorter than was asked for.

use std::time::Duration;

/// Returns the ttl in seconds, rounded up.
pub fn whole_seconds(ttl: Duration) -> i64 {
    in_units_of(1_000_000_000, ttl)
}

/// Returns the ttl in milliseconds, rounded up.
pub fn whole_millis(ttl: Duration) -> i64 {
    in_units_of(1_000_000, ttl)
}

/// Returns the ttl in microseconds, rounded up.
pub fn whole_micros(ttl: Duration) -> i64 {
    in_units_of(1_000, ttl)
}

fn in_units_of(nanos: u128, ttl: Duration) -> i64 {
    i64::try_from(ttl.as_nanos().div_ceil(nanos)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        let rounded = |ttl| (whole_seconds(ttl), whole_millis(ttl), whole_micros(ttl));
        assert_eq!(rounded(Duration::ZERO), (0, 0, 0));
        assert_eq!(rounded(Duration::from_nanos(1)), (1, 1, 1));
        assert_eq!(rounded(Duration::from_secs(30)), (30, 30_000, 30_000_000));
        assert_eq!(rounded(Duration::from_nanos(30_000_000_001)), (31, 30_001, 30_000_001));
        assert_eq!(rounded(Duration::from_micros(1_500)), (1, 2, 1_500));
        assert_eq!(rounded(Duration::MAX), (i64::MAX, i64::MAX, i64::MAX));
    }
}
