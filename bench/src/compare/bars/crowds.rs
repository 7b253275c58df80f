//! How many hand-overs a crowd of contenders makes, and how evenly they are shared.

use super::{Check, Judged, Measured};
use crate::compare::lookup::ours;
use crate::compare::report::Row;
use crate::compare::workload::Case;
use crate::targets::Bound;

/// The contenders of the bar on hand-overs.
pub(super) const CROWD: Case = Case::OneName { contenders: 64, processes: 8 };

/// The share of the raw driver's hand-overs that a crowd has to make.
const HALF: f64 = 0.5;
/// Jain's index where processes are served in order.
const FAIR: f64 = 0.9;
/// The least share elsewhere, of the mean.
const FIFTH: f64 = 0.2;
/// How many grants each contender has to have on average: of fewer, a small share may be chance.
const ENOUGH: f64 = 20.0;

pub(super) fn half_of_raw(on: &Measured<'_>) -> Judged {
    if on.promises.wakes != "pushed" {
        return Ok(None);
    }
    let row = ours(on.report, on.server, CROWD)?;
    let ratio = row.ratios.as_ref().and_then(|ratios| ratios.per_s);
    let figure = ratio.ok_or("the raw driver has no hand-over there to compare with")?;
    let says = format!("{:.0} hand-overs a second, {figure:.2} times those of the raw driver", row.per_s);
    Ok(Some(Check { figure, bound: Bound::AtLeast(HALF), says }))
}

/// Judges the most uneven of the crowds in several processes.
pub(super) fn shares(on: &Measured<'_>) -> Judged {
    let (name, bound) = match on.promises.fair.as_str() {
        "no" => ("slowest_share", Bound::AtLeast(FIFTH)),
        _ => ("jain", Bound::AtLeast(FAIR)),
    };
    let crowds: Vec<&Row> = on.crowds().collect();
    if crowds.is_empty() {
        ours(on.report, on.server, CROWD)?;
    }
    let judged = crowds.iter().filter(|row| grants_of_each(row) >= ENOUGH);
    let figures = judged.filter_map(|row| Some((*row.extra.get(name)?, *row)));
    let least = figures.min_by(|(one, _), (other, _)| one.total_cmp(other));
    let (figure, row) = least.ok_or_else(|| {
        format!("no crowd had {ENOUGH} grants for each contender: of fewer, a small share may be chance")
    })?;
    let says = format!(
        "{name} of {} contenders in {} processes",
        parameter(row, "contenders"),
        parameter(row, "processes")
    );
    Ok(Some(Check { figure, bound, says }))
}

impl Measured<'_> {
    /// Returns the library's rows of contenders in more than one process.
    pub(super) fn crowds(&self) -> impl Iterator<Item = &Row> {
        self.report.rows.iter().filter(|row| {
            row.server == self.server.name
                && row.workload == CROWD.workload().as_str()
                && row.subject == "ours"
                && parameter(row, "processes") > 1
        })
    }
}

/// Returns a parameter of a row; 0 if the row has none of this name.
pub(super) fn parameter(row: &Row, name: &str) -> u64 {
    row.parameters.get(name).copied().unwrap_or(0)
}

/// Returns how many grants each contender had on average.
fn grants_of_each(row: &Row) -> f64 {
    let grants: u64 = row.histogram.iter().map(|(_, count)| count).sum();
    grants as f64 / parameter(row, "contenders").max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Crowd, Data};

    fn of_64(ratio: f64) -> Crowd {
        Crowd { contenders: 64, processes: 8, ratio: Some(ratio), ..Crowd::default() }
    }

    #[test]
    fn a_crowd_makes_half_of_the_raw_hand_overs_or_not() {
        let pushed = |ratio| Data::on("redis", "no", "pushed").crowd(of_64(ratio)).verdict("half-of-raw");
        assert_eq!((pushed(0.5).as_str(), pushed(0.49).as_str()), ("met", "not-met"));
        let alone = Crowd { ratio: None, ..of_64(1.0) };
        assert_eq!(Data::on("redlock", "no", "pushed").crowd(alone).verdict("half-of-raw"), "not-measured");
        assert!(Data::on("mysql", "no", "polled").crowd(of_64(0.1)).bar("half-of-raw").is_none());
    }

    #[test]
    fn processes_in_order_have_equal_shares_or_not() {
        let jain = |jain| {
            let crowd = Crowd { contenders: 8, processes: 8, jain, slowest_share: 0.0, ..Crowd::default() };
            Data::on("etcd", "per process", "pushed").crowd(crowd).verdict("shares")
        };
        assert_eq!((jain(0.9).as_str(), jain(0.89).as_str()), ("met", "not-met"));
    }

    #[test]
    fn without_an_order_a_contender_starves_or_not() {
        let slowest = |slowest_share| {
            let crowd = Crowd { contenders: 8, processes: 8, jain: 0.5, slowest_share, ..Crowd::default() };
            Data::on("redis", "no", "pushed").crowd(crowd).verdict("shares")
        };
        assert_eq!((slowest(0.2).as_str(), slowest(0.19).as_str()), ("met", "not-met"));
    }

    #[test]
    fn the_most_uneven_crowd_counts_if_its_grants_are_enough() {
        let even = Crowd { contenders: 8, processes: 8, slowest_share: 0.9, ..Crowd::default() };
        let uneven = |grants| Crowd { slowest_share: 0.1, grants, ..of_64(1.0) };
        let verdict =
            |grants| Data::on("redis", "no", "pushed").crowd(even).crowd(uneven(grants)).verdict("shares");
        assert_eq!((verdict(64 * 20).as_str(), verdict(64 * 20 - 1).as_str()), ("not-met", "met"));
        let only_few = Data::on("redis", "no", "pushed").crowd(uneven(100)).verdict("shares");
        assert_eq!(only_few, "not-measured");
    }

    #[test]
    fn contenders_of_one_process_are_no_crowd() {
        let one = Crowd { contenders: 8, processes: 1, slowest_share: 0.0, ..Crowd::default() };
        assert_eq!(Data::on("redis", "no", "pushed").crowd(one).verdict("shares"), "not-measured");
    }
}
