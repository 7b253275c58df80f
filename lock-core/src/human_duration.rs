//! Durations as people read them.

use std::fmt;
use std::time::Duration;

/// Shows a duration for people, to three decimals of its smallest unit: `10 ms`, `1.5 s`, `1 h 30 min`, `30 days`.
///
/// ```
/// # use lock_core as onelock;
/// use std::time::Duration;
///
/// use lock_core::toolkit::HumanDuration;
///
/// assert_eq!(HumanDuration(Duration::from_secs(5400)).to_string(), "1 h 30 min");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.as_secs();
        match self.0 {
            Duration::ZERO => f.write_str("0 s"),
            short if short < MILLISECOND => decimal(f, short.as_nanos(), "µs"),
            short if whole == 0 => decimal(f, short.as_micros(), "ms"),
            _ if whole < 120 => decimal(f, self.0.as_millis(), "s"),
            _ => long(f, whole, self.0.subsec_millis()),
        }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Writes thousandths of `unit`, without zeros at the end.
fn decimal(f: &mut fmt::Formatter<'_>, thousandths: u128, unit: &str) -> fmt::Result {
    let (whole, part) = (thousandths / 1000, thousandths % 1000);
    match part {
        0 => write!(f, "{whole} {unit}"),
        _ => write!(f, "{whole}.{} {unit}", format!("{part:03}").trim_end_matches('0')),
    }
}

/// Writes days, hours, minutes and seconds, those that are not zero.
fn long(f: &mut fmt::Formatter<'_>, seconds: u64, millis: u32) -> fmt::Result {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let mut space = "";
    for (count, unit) in [(days, if days == 1 { "day" } else { "days" }), (hours, "h"), (minutes, "min")] {
        if count > 0 {
            write!(f, "{space}{count} {unit}")?;
            space = " ";
        }
    }
    match u128::from(seconds % 60) * 1000 + u128::from(millis) {
        0 => Ok(()),
        rest => {
            f.write_str(space)?;
            decimal(f, rest, "s")
        }
    }
}

/// Shows a duration in one rounded unit, for what changes from moment to moment: `3 min`.
pub(crate) struct RoundedDuration(pub(crate) Duration);

impl fmt::Display for RoundedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            s @ ..120 => write!(f, "{s} s"),
            s @ 120..7200 => write!(f, "{} min", s / 60),
            s @ 7200..172_800 => write!(f, "{} h", s / 3600),
            s => write!(f, "{} days", s / 86400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_a_duration_in_their_units() {
        for (millis, shown) in [
            (0, "0 s"),
            (10, "10 ms"),
            (333, "333 ms"),
            (1_500, "1.5 s"),
            (30_000, "30 s"),
            (119_020, "119.02 s"),
            (120_000, "2 min"),
            (5_400_000, "1 h 30 min"),
            (3_605_250, "1 h 5.25 s"),
            (86_400_000, "1 day"),
            (90_060_000, "1 day 1 h 1 min"),
            (2_592_000_000, "30 days"),
        ] {
            assert_eq!(HumanDuration(Duration::from_millis(millis)).to_string(), shown);
        }
        for (nanos, shown) in [(5_000, "5 µs"), (1, "0.001 µs"), (1_250_000, "1.25 ms")] {
            assert_eq!(HumanDuration(Duration::from_nanos(nanos)).to_string(), shown);
        }
    }
}
