//! How soon a waiter has the lock of a holder that was killed.

use super::{Check, Judged, Measured};
use crate::compare::lookup::{extra, ours};
use crate::compare::workload::Case;
use crate::targets::Bound;

/// How much later than the ttl, in milliseconds.
const LATE: f64 = 100.0;

pub(super) fn within_the_ttl(on: &Measured<'_>) -> Judged {
    let figure = extra(ours(on.report, on.server, Case::Recovery), "recovery_over_ttl_ms")?;
    let says = "milliseconds after the ttl, the longest recovery".to_owned();
    Ok(Some(Check { figure, bound: Bound::AtMost(LATE), says }))
}

#[cfg(test)]
mod tests {
    use super::super::sample::Data;

    #[test]
    fn a_recovery_is_in_time_or_late() {
        let late = |millis| Data::on("redis", "no", "pushed").recovers(millis).verdict("recovery");
        assert_eq!((late(-90.0).as_str(), late(100.0).as_str()), ("met", "met"));
        assert_eq!(late(100.1), "not-met");
    }
}
