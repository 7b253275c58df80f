//! A row of the report: the figures of one subject. `bench/README.md` describes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::subjects::Kind;
use crate::tally::{By, Tally};

/// One subject at one case on one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) server: String,
    pub(crate) case: String,
    pub(crate) subject: String,
    pub(crate) per_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_us: Option<f64>,
    /// The number of latencies.
    pub(crate) count: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) errors: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratios: Option<Ratios>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, f64>,
    /// Promises that the library gives there and this subject, another library's lock, does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lacks: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Medians of the rounds' ratios to another subject of the same rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratios {
    pub(crate) of: String,
    pub(crate) per_s: Option<f64>,
    /// None where the latencies are of different things.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Row {
    /// Returns the row of a subject, compared with another one.
    pub(crate) fn of(
        server: &str,
        case: Case,
        subject: Kind,
        tally: &Tally,
        base: Option<(Kind, &Tally)>,
    ) -> Row {
        let mut extra: BTreeMap<String, f64> =
            tally.extra().into_iter().map(|(name, figure)| (name.to_owned(), short(figure))).collect();
        let shares = [("jain", jain(&tally.grants)), ("slowest_share", slowest_share(&tally.grants))];
        extra.extend(shares.into_iter().filter_map(|(name, share)| Some((name.to_owned(), short(share?)))));
        let micros = |percentile| tally.percentile(percentile).map(short);
        Row {
            server: server.to_owned(),
            case: case.to_string(),
            subject: subject.as_str().to_owned(),
            per_s: short(tally.rate()),
            p50_us: micros(50.0),
            p99_us: micros(99.0),
            max_us: micros(100.0),
            count: tally.count(),
            errors: tally.errors.len() as u64,
            first_error: tally.errors.first().cloned(),
            ratios: base.map(|(base, other)| Ratios::of(case, base, tally, other)),
            extra,
            lacks: Vec::new(),
        }
    }
}

impl Ratios {
    fn of(case: Case, base: Kind, own: &Tally, other: &Tally) -> Ratios {
        // The latency of a contender is its wait for others; that of a hand-over is not.
        let are_alike = !matches!(case, Case::OneName { .. });
        let latency = |by| own.ratio(other, by).filter(|_| are_alike).map(short);
        Ratios {
            of: base.as_str().to_owned(),
            per_s: own.ratio(other, By::Rate).map(short),
            p50: latency(By::P50),
            p99: latency(By::P99),
        }
    }
}

/// Rounds a figure to four digits: no machine repeats the fifth.
fn short(figure: f64) -> f64 {
    format!("{figure:.3e}").parse().ok().filter(|short: &f64| short.is_finite()).unwrap_or(0.0)
}

/// With fewer grants for each contender, one grant more or less would decide.
const FEWEST: u64 = 10;

/// Returns Jain's index of the contenders' counts: 1 if all are equal, 1/n if one of n has everything.
fn jain(grants: &[u64]) -> Option<f64> {
    let sum: f64 = grants.iter().map(|count| *count as f64).sum();
    let squares: f64 = grants.iter().map(|count| (*count as f64).powi(2)).sum();
    is_enough(grants).then(|| sum * sum / (grants.len() as f64 * squares))
}

/// Returns the least count as a share of the mean.
fn slowest_share(grants: &[u64]) -> Option<f64> {
    let least = *grants.iter().min()?;
    is_enough(grants).then(|| least as f64 * grants.len() as f64 / grants.iter().sum::<u64>() as f64)
}

fn is_enough(grants: &[u64]) -> bool {
    let sum: u64 = grants.iter().sum();
    sum > 0 && sum >= FEWEST * grants.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    fn tally(latency: u64, rate: f64) -> Tally {
        let mut tally = Tally::default();
        let extra = vec![("requests_per_hand_over", 2.0)];
        tally.add(Slice {
            latencies: vec![latency; 4],
            rate,
            grants: vec![10, 30],
            extra,
            ..Slice::default()
        });
        tally
    }

    #[test]
    fn a_row_has_its_ratios_and_its_shares() {
        let (own, other) = (tally(2_000, 50.0), tally(1_000, 100.0));
        let row = |case| Row::of("redis", case, Kind::Ours, &own, Some((Kind::Baseline, &other)));
        let ratios = row(Case::HandOver).ratios.unwrap();
        assert_eq!((ratios.per_s, ratios.p50, ratios.p99), (Some(0.5), Some(2.0), Some(2.0)));
        let contended = row(Case::OneName { contenders: 2, processes: 2 });
        assert_eq!(contended.ratios.unwrap().p50, None, "these are latencies of different things");
        assert_eq!(
            (contended.extra["jain"], contended.extra["slowest_share"], contended.count),
            (0.8, 0.5, 4)
        );
    }

    #[test]
    fn figures_have_four_digits() {
        assert_eq!([123_456.0, 0.012_345_6, -9.999_96, 0.0].map(short), [123_500.0, 0.012_35, -10.0, 0.0]);
    }

    #[test]
    fn too_few_grants_have_no_share() {
        assert_eq!((jain(&[9, 10]), slowest_share(&[0, 0]), jain(&[])), (None, None, None));
        assert_eq!((jain(&[0, 90, 0, 0]), slowest_share(&[70, 70])), (Some(0.25), Some(1.0)));
    }
}
