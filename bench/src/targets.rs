//! The figures that the library should reach.

use crate::backend::Backend;
use crate::tally::Tally;
use crate::workload::Workload;

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    figure: Figure,
    bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Ratio,
    PerSecond,
    P50,
}

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

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

impl Target {
    /// Returns the target of the library's row. Other subjects have none.
    pub(crate) fn of(workload: Workload, backend: Backend) -> Option<Target> {
        use Bound::{AtLeast, AtMost};
        let (figure, bound) = match (workload, backend) {
            (Workload::Uncontended, Backend::Memory) => (Figure::P50, AtMost(5.0)),
            (Workload::ManyNames, Backend::Memory) => return None,
            (Workload::Uncontended, Backend::Redlock) => (Figure::Ratio, AtMost(1.15)),
            (Workload::Uncontended, _) => (Figure::Ratio, AtMost(1.10)),
            (Workload::OneLost, _) => (Figure::Ratio, AtMost(1.10)),
            (Workload::ManyNames, _) => (Figure::Ratio, AtLeast(0.85)),
            (Workload::OneName, Backend::Redis) => (Figure::Ratio, AtLeast(0.85)),
            (Workload::HandOver, _) => (Figure::Ratio, AtMost(1.35)),
            (Workload::Delay, _) => (Figure::Ratio, AtMost(1.0)),
            (Workload::Waiting, _) => (Figure::PerSecond, AtMost(5.0)),
            (Workload::Renewal, _) => (Figure::Ratio, AtMost(3.0)),
            (Workload::Commits, _) => (Figure::Ratio, AtLeast(0.95)),
            (Workload::OneName | Workload::Processes, _) => return None,
        };
        Some(Target { figure, bound })
    }

    /// Returns whether the row with these figures reaches it; `None` if it has no such figure.
    pub(crate) fn reached_by(self, ratio: Option<f64>, tally: &Tally) -> Option<bool> {
        let figure = match self.figure {
            Figure::Ratio => ratio,
            Figure::PerSecond => Some(tally.rate()),
            Figure::P50 => tally.percentile(50.0),
        }?;
        Some(self.bound.is_reached_by(figure))
    }
}

impl std::fmt::Display for Target {
    /// `<= 1.10`, `p50 <= 5`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.figure {
            Figure::Ratio => {}
            Figure::PerSecond => f.write_str("per s ")?,
            Figure::P50 => f.write_str("p50 ")?,
        }
        self.bound.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    #[test]
    fn a_target_is_reached_at_its_bound() {
        let mut tally = Tally::default();
        tally.add(Slice { latencies: vec![6_000], rate: 5.0, ..Slice::default() });
        let reached =
            |workload, backend, ratio| Target::of(workload, backend).unwrap().reached_by(ratio, &tally);
        assert_eq!(reached(Workload::Uncontended, Backend::Redis, Some(1.1)), Some(true));
        assert_eq!(reached(Workload::Uncontended, Backend::Redis, Some(1.11)), Some(false));
        assert_eq!(reached(Workload::ManyNames, Backend::Mongo, Some(0.84)), Some(false));
        assert_eq!(reached(Workload::HandOver, Backend::Sqlite, None), None);
        assert_eq!(reached(Workload::Waiting, Backend::MySql, None), Some(true));
        assert_eq!(reached(Workload::Uncontended, Backend::Memory, None), Some(false), "6 us");
    }
}
