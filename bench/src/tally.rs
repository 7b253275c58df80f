//! The results of measurements: of one slice, and of all rounds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The results of one subject in one round.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// The latencies of what succeeded, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    pub(crate) errors: Vec<String>,
    /// How much was done within the slice, per second.
    pub(crate) rate: f64,
    /// The ratio, where the subject is compared with something other than another subject.
    pub(crate) ratio: Option<f64>,
}

impl Slice {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.latencies.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn p50(&mut self) -> Option<f64> {
        let middle = self.latencies.len().checked_sub(1)? / 2;
        let (_, median, _) = self.latencies.select_nth_unstable(middle);
        Some(*median as f64)
    }
}

/// The results of one subject in all rounds.
#[derive(Debug)]
pub(crate) struct Tally {
    latencies: Histogram<u64>,
    errors: u64,
    first_error: Option<String>,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    rate: f64,
    p50: Option<f64>,
    ratio: Option<f64>,
}

/// The figure by which two subjects are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    P50,
    Rate,
}

impl Default for Tally {
    fn default() -> Tally {
        let latencies =
            Histogram::new_with_bounds(1, LONGEST, 3).expect("1 ns to a minute, three digits: valid bounds");
        Tally { latencies, errors: 0, first_error: None, rounds: Vec::new() }
    }
}

/// A longer latency is recorded as this one, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

impl Tally {
    pub(crate) fn add(&mut self, mut slice: Slice) {
        for latency in &slice.latencies {
            self.latencies.saturating_record((*latency).max(1));
        }
        self.errors += slice.errors.len() as u64;
        self.rounds.push(Round { rate: slice.rate, p50: slice.p50(), ratio: slice.ratio });
        self.first_error = self.first_error.take().or(slice.errors.into_iter().next());
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the text of the first error.
    pub(crate) fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// Returns the median of the rounds' rates.
    pub(crate) fn rate(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rate).collect()).unwrap_or(0.0)
    }

    /// Returns a percentile of the latencies of all rounds together, in microseconds; `None` if nothing succeeded.
    pub(crate) fn percentile(&self, percentile: f64) -> Option<f64> {
        (!self.latencies.is_empty()).then(|| self.latencies.value_at_percentile(percentile) as f64 / 1e3)
    }

    /// Returns the median of the ratios that the rounds have by themselves.
    pub(crate) fn own_ratio(&self) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| round.ratio).collect())
    }

    /// Returns the median of the rounds' ratios of this to `other`.
    pub(crate) fn ratio(&self, other: &Tally, by: By) -> Option<f64> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        let ratios = pairs.filter_map(|(a, b)| match by {
            By::P50 => Some(a.p50? / b.p50?),
            By::Rate => Some(a.rate / b.rate),
        });
        median(ratios.filter(|ratio| ratio.is_finite()).collect())
    }
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
                ratio: None,
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
        assert_eq!((a.errors(), b.rate(), b.percentile(50.0)), (3, 100.0, Some(1.0)));
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
