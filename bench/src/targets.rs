//! The figures that the library should reach.

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::report::Row;
use crate::subjects::TTL;
use crate::workload::Workload;

/// A figure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Ratio,
    P99Ratio,
    TokenPrice,
    PerSecond,
    P50,
    P99,
    BytesPerLock,
    /// The share of a core, where the locks have the default ttl. With another one it is another figure.
    CoreShareAtDefaultTtl,
    RoundTripsMore,
}

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// A bound on a figure of one row, and whether it is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The figure's name in the row.
    pub(crate) figure: String,
    #[serde(flatten)]
    pub(crate) bound: Bound,
    pub(crate) reached: bool,
}

impl Figure {
    /// Returns its name in a row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Figure::Ratio => "ratio",
            Figure::P99Ratio => "p99_ratio",
            Figure::TokenPrice => "token_price",
            Figure::PerSecond => "per_s",
            Figure::P50 => "p50_us",
            Figure::P99 => "p99_us",
            Figure::BytesPerLock => "bytes_per_lock",
            Figure::CoreShareAtDefaultTtl => "core_share",
            Figure::RoundTripsMore => "round_trips_more",
        }
    }

    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Figure::Ratio => row.ratio,
            Figure::P99Ratio => row.p99_ratio,
            Figure::TokenPrice => row.token_price,
            Figure::PerSecond => Some(row.per_s),
            Figure::P50 => row.p50_us,
            Figure::P99 => row.p99_us,
            Figure::CoreShareAtDefaultTtl if row.figures.get("ttl_ms") != Some(&DEFAULT_TTL_MS) => None,
            _ => row.figures.get(self.name()).copied(),
        }
    }
}

const DEFAULT_TTL_MS: f64 = TTL.as_millis() as f64;

impl Bound {
    pub(crate) fn is_reached_by(self, figure: f64) -> bool {
        match self {
            Bound::AtMost(most) => figure <= most,
            Bound::AtLeast(least) => figure >= least,
        }
    }
}

impl std::fmt::Display for Bound {
    /// `<= 1.1`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "<= {most}"),
            Bound::AtLeast(least) => write!(f, ">= {least}"),
        }
    }
}

impl std::fmt::Display for Verdict {
    /// `>= 0.95`, `! p99 ratio <= 1.5`: the mark says that it is missed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.reached {
            f.write_str("! ")?;
        }
        if self.figure != Figure::Ratio.name() {
            write!(f, "{} ", self.figure.replace('_', " "))?;
        }
        self.bound.fmt(f)
    }
}

/// Returns the verdicts on a row of the library. A figure that the row lacks has none.
pub(crate) fn judge(workload: Workload, backend: Backend, row: &Row) -> Vec<Verdict> {
    let verdict = |(figure, bound): &(Figure, Bound)| {
        let reached = bound.is_reached_by(figure.of(row)?);
        Some(Verdict { figure: figure.name().to_owned(), bound: *bound, reached })
    };
    bounds(workload, backend, row).iter().filter_map(verdict).collect()
}

/// How many held locks may use [`CORE_SHARE`] of a core.
const LOCKS: u64 = 10_000;
const CORE_SHARE: f64 = 0.05;

fn bounds(workload: Workload, backend: Backend, row: &Row) -> Vec<(Figure, Bound)> {
    use Bound::{AtLeast, AtMost};
    use Figure::TokenPrice;
    use Figure::{BytesPerLock, CoreShareAtDefaultTtl, P50, P99, P99Ratio, PerSecond, Ratio, RoundTripsMore};
    match (workload, backend) {
        (Workload::Uncontended, Backend::Memory) => vec![(P50, AtMost(5.0))],
        (Workload::Uncontended, _) => {
            vec![(Ratio, AtLeast(0.95)), (P99Ratio, AtMost(1.5)), (TokenPrice, AtLeast(0.8))]
        }
        (Workload::ManyNames, _) => {
            vec![(Ratio, AtLeast(0.92)), (P99Ratio, AtMost(1.5)), (TokenPrice, AtLeast(0.65))]
        }
        (Workload::OneName, _) => vec![(Ratio, AtLeast(1.7))],
        (Workload::OneLost, _) => vec![(Ratio, AtMost(1.10))],
        (Workload::HandOver, _) => vec![(Ratio, AtMost(1.35))],
        (Workload::Processes, Backend::Redis) => vec![(P99, AtMost(40_000.0)), (PerSecond, AtLeast(430.0))],
        (Workload::Processes, Backend::Postgres | Backend::Mongo) => vec![(P99, AtMost(40_000.0))],
        (Workload::Processes | Workload::Crowd, _) => vec![],
        (Workload::Delay, _) => vec![(Ratio, AtMost(1.0))],
        (Workload::Waiting, _) => vec![(PerSecond, AtMost(5.0))],
        (Workload::Renewal, _) => vec![(Ratio, AtMost(3.0))],
        (Workload::Commits, _) => vec![(Ratio, AtLeast(0.95))],
        (Workload::Held, _) if row.parameters.get("locks") == Some(&LOCKS) => {
            vec![(BytesPerLock, AtMost(2_500.0)), (CoreShareAtDefaultTtl, AtMost(CORE_SHARE))]
        }
        (Workload::Held, _) => vec![(BytesPerLock, AtMost(2_500.0))],
        (Workload::FirstLock, Backend::Sqlite) => vec![(P50, AtMost(5_000.0))],
        (Workload::FirstLock, _) => vec![(RoundTripsMore, AtMost(2.0))],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn verdicts(workload: Workload, backend: Backend, row: &Row) -> Vec<(String, bool)> {
        judge(workload, backend, row).into_iter().map(|verdict| (verdict.figure, verdict.reached)).collect()
    }

    #[test]
    fn a_target_is_reached_at_its_bound() {
        let row = Row { ratio: Some(0.95), p99_ratio: Some(1.5), p50_us: Some(6.0), ..Row::default() };
        let judged = |backend, row: &Row| verdicts(Workload::Uncontended, backend, row);
        let both = |a, b| vec![("ratio".to_owned(), a), ("p99_ratio".to_owned(), b)];
        assert_eq!(judged(Backend::Redis, &row), both(true, true));
        let slower = Row { ratio: Some(0.949), p99_ratio: Some(1.51), ..row.clone() };
        assert_eq!(judged(Backend::Redlock, &slower), both(false, false));
        assert_eq!(judged(Backend::Redis, &Row { p99_ratio: None, ..row.clone() }), both(true, true)[..1]);
        assert_eq!(judged(Backend::Memory, &row), [("p50_us".to_owned(), false)]);
    }

    #[test]
    fn many_names_have_a_price_of_the_token_and_tasks_on_one_name_a_hand_over_of_their_own() {
        let row = Row { ratio: Some(0.92), p99_ratio: Some(1.0), token_price: Some(0.64), ..Row::default() };
        let missed = |workload| {
            let judged = judge(workload, Backend::Redis, &row);
            judged.iter().filter(|verdict| !verdict.reached).map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(missed(Workload::ManyNames), ["! token price >= 0.65"]);
        assert_eq!(missed(Workload::OneName), ["! >= 1.7"]);
    }

    #[test]
    fn processes_have_a_longest_wait_where_releases_are_pushed() {
        let row = Row { p99_us: Some(40_001.0), per_s: 430.0, ..Row::default() };
        let judged = |backend| verdicts(Workload::Processes, backend, &row);
        assert_eq!(judged(Backend::Redis), [("p99_us".to_owned(), false), ("per_s".to_owned(), true)]);
        assert_eq!((judged(Backend::Mongo).len(), judged(Backend::MySql).len()), (1, 0));
    }

    #[test]
    fn a_share_of_a_core_counts_at_the_default_ttl_only() {
        let held = |locks, ttl_ms: f64| {
            let figures = [("bytes_per_lock", 2_500.0), ("core_share", 0.06), ("ttl_ms", ttl_ms)];
            let figures = figures.map(|(name, figure)| (name.to_owned(), figure));
            let parameters = BTreeMap::from([("locks".to_owned(), locks)]);
            let row = Row { figures: figures.into(), parameters, ..Row::default() };
            verdicts(Workload::Held, Backend::Redis, &row)
        };
        let bytes = ("bytes_per_lock".to_owned(), true);
        assert_eq!(held(10_000, 30_000.0), [bytes.clone(), ("core_share".to_owned(), false)]);
        assert_eq!(held(10_000, 3_000.0), std::slice::from_ref(&bytes));
        assert_eq!(held(100_000, 30_000.0), [bytes]);
    }

    #[test]
    fn the_first_lock_is_bounded_by_time_in_a_file_and_by_round_trips_on_servers() {
        let figures = BTreeMap::from([("round_trips_more".to_owned(), 2.1)]);
        let row = Row { p50_us: Some(5_000.0), figures, ..Row::default() };
        let judged = |backend| verdicts(Workload::FirstLock, backend, &row);
        assert_eq!(judged(Backend::Sqlite), [("p50_us".to_owned(), true)]);
        assert_eq!(judged(Backend::Etcd), [("round_trips_more".to_owned(), false)]);
    }

    #[test]
    fn a_verdict_is_read_as_it_was_written() {
        let verdict = Verdict { figure: "p99_ratio".to_owned(), bound: Bound::AtMost(1.5), reached: false };
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(text, r#"{"figure":"p99_ratio","at_most":1.5,"reached":false}"#);
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    }
}
