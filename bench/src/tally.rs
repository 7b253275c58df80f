//! The results of measurements: of one slice, and of all rounds.

use std::collections::BTreeMap;
use std::time::Duration;

/// The results of one subject in one round.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// The latencies of what succeeded, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    pub(crate) errors: Vec<String>,
    /// The number of what was done within the slice, per second.
    pub(crate) rate: f64,
    /// The grants of each contender within the slice, always in the same order.
    pub(crate) grants: Vec<u64>,
    /// Further figures, by their names in the report.
    pub(crate) extra: Vec<(&'static str, f64)>,
}

impl Slice {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.latencies.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The results of one subject in all rounds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    latencies: Vec<u64>,
    pub(crate) errors: Vec<String>,
    rounds: Vec<Round>,
    /// The grants of each contender over all rounds; empty where they were not counted.
    pub(crate) grants: Vec<u64>,
    extra: BTreeMap<&'static str, Vec<f64>>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    rate: f64,
    /// In nanoseconds, as the next.
    p50: Option<f64>,
    p99: Option<f64>,
}

/// The figure by which two subjects are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    P50,
    P99,
    Rate,
}

impl Round {
    fn ratio_to(&self, other: &Round, by: By) -> Option<f64> {
        let ratio = match by {
            By::P50 => self.p50? / other.p50?,
            By::P99 => self.p99? / other.p99?,
            By::Rate => self.rate / other.rate,
        };
        ratio.is_finite().then_some(ratio)
    }
}

impl Tally {
    pub(crate) fn add(&mut self, mut slice: Slice) {
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut slice.latencies, share));
        self.rounds.push(Round { rate: slice.rate, p50, p99 });
        self.latencies.extend(slice.latencies);
        self.errors.extend(slice.errors);
        self.grants.resize(self.grants.len().max(slice.grants.len()), 0);
        for (all, granted) in self.grants.iter_mut().zip(&slice.grants) {
            *all += granted;
        }
        for (name, figure) in slice.extra {
            self.extra.entry(name).or_default().push(figure);
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rate).collect()).unwrap_or(0.0)
    }

    /// Returns a percentile of the latencies of all rounds together, in microseconds; `None` if nothing succeeded.
    pub(crate) fn percentile(&self, percentile: f64) -> Option<f64> {
        quantile(&mut self.latencies.clone(), percentile / 100.0).map(|nanos| nanos / 1e3)
    }

    pub(crate) fn count(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the median of the rounds' ratios of this to `other`.
    pub(crate) fn ratio(&self, other: &Tally, by: By) -> Option<f64> {
        median(self.rounds.iter().zip(&other.rounds).filter_map(|(a, b)| a.ratio_to(b, by)).collect())
    }

    pub(crate) fn extra(&self) -> BTreeMap<&'static str, f64> {
        let medians = self.extra.iter().map(|(name, figures)| (*name, median(figures.clone())));
        medians.filter_map(|(name, median)| Some((name, median?))).collect()
    }
}

/// Returns the latency that this share of all don't exceed; `None` if there is none.
fn quantile(latencies: &mut [u64], share: f64) -> Option<f64> {
    let last = latencies.len().checked_sub(1)?;
    let (_, latency, _) = latencies.select_nth_unstable((last as f64 * share) as usize);
    Some(*latency as f64)
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rounds: &[(u64, f64)]) -> Tally {
        let mut tally = Tally::default();
        for (latency, rate) in rounds {
            tally.add(Slice {
                latencies: vec![*latency; 3],
                errors: vec!["no".into()],
                rate: *rate,
                ..Slice::default()
            });
        }
        tally
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        // In the third round, only `a` was disturbed.
        let a = tally(&[(2_000, 50.0), (4_000, 25.0), (90_000, 1.0)]);
        let b = tally(&[(1_000, 100.0), (2_000, 50.0), (1_000, 100.0)]);
        assert_eq!((a.ratio(&b, By::P50), a.ratio(&b, By::Rate)), (Some(2.0), Some(0.5)));
        assert_eq!((a.errors.len(), b.rate(), b.percentile(50.0)), (3, 100.0, Some(1.0)));
    }

    #[test]
    fn the_ratio_of_the_p99_sees_a_tail() {
        let with_a_tail = |tail| {
            let mut tally = Tally::default();
            let latencies = std::iter::repeat_n(1_000, 95).chain(std::iter::repeat_n(tail, 5)).collect();
            tally.add(Slice { latencies, ..Slice::default() });
            tally
        };
        let (a, b) = (with_a_tail(50_000), with_a_tail(10_000));
        assert_eq!((a.ratio(&b, By::P50), a.ratio(&b, By::P99)), (Some(1.0), Some(5.0)));
    }

    #[test]
    fn grants_of_contenders_are_added_other_figures_are_medians() {
        let mut tally = Tally::default();
        for (grants, figure) in [(vec![1, 2], 5.0), (vec![3, 0], 7.0), (vec![0, 1], 6.0)] {
            tally.add(Slice { grants, extra: vec![("figure", figure)], ..Slice::default() });
        }
        assert_eq!((&tally.grants[..], tally.extra()["figure"]), (&[4, 3][..], 6.0));
    }

    #[test]
    fn what_never_succeeded_has_no_figures() {
        let mut none = Tally::default();
        none.add(Slice { errors: vec!["no".into(), "neither".into()], ..Slice::default() });
        assert_eq!(
            (none.percentile(50.0), none.ratio(&none, By::P50), none.ratio(&none, By::Rate)),
            (None, None, None)
        );
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(
            (median(vec![3.0, 1.0]), median(vec![5.0, 1.0, 3.0]), median(vec![])),
            (Some(2.0), Some(3.0), None)
        );
    }
}
