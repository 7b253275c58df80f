//! The report: what `report.json` holds. `bench/REPORT.md` describes each field.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use onelock::{Fencing, Info};
use serde::{Deserialize, Serialize};

use super::fairness::{jain, slowest_share};
use super::judged::{BarReport, ClaimReport, Played};
use super::peers::PeerReport;
use crate::Outcome;
use crate::machine::Machine;
use crate::tally::{By, Round, Tally};

/// The version of the schema. A change that an older reader would misread raises it.
pub(crate) const VERSION: u32 = 1;

/// The file's name in the folder of a run.
const FILE: &str = "report.json";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    pub(crate) began: String,
    /// When the last step ended; `None` if there is none.
    pub(crate) ended: Option<String>,
    /// How long its steps took, with the starts of their servers, in seconds. Earlier reports don't say it.
    #[serde(default)]
    pub(crate) took_s: Option<f64>,
    /// Whether every step of the plan was measured, or can't be measured here.
    pub(crate) complete: bool,
    pub(crate) machine: Machine,
    pub(crate) options: Options,
    pub(crate) servers: Vec<ServerReport>,
    pub(crate) rows: Vec<Row>,
    /// What became of the cases and scenes that claims need.
    pub(crate) cases: Vec<Played>,
    pub(crate) claims: Vec<ClaimReport>,
    /// What the library has to reach. Earlier reports have none.
    #[serde(default)]
    pub(crate) bars: Vec<BarReport>,
    pub(crate) not_run: Vec<NotRun>,
}

/// Which schema a report has.
#[derive(Deserialize)]
struct Schema {
    version: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) on: Vec<String>,
    pub(crate) workloads: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerReport {
    pub(crate) name: String,
    /// The product and its version, as a server that this program started tells them.
    pub(crate) product: Option<String>,
    pub(crate) backend: String,
    /// Whether it writes to the disk before it acknowledges; `None` if this program doesn't know.
    pub(crate) durable: Option<bool>,
    pub(crate) info: Option<Promises>,
    /// Why it was not measured.
    pub(crate) not_run: Option<String>,
}

/// What the library's `Info` says of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promises {
    pub(crate) address: String,
    pub(crate) lease: String,
    pub(crate) fair: String,
    pub(crate) wakes: String,
    pub(crate) fencing: FencingReport,
    pub(crate) clock: String,
    pub(crate) data_loss: String,
    pub(crate) min_ttl_ms: u64,
    pub(crate) max_ttl_ms: u64,
    pub(crate) requests_per_hand_over: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FencingReport {
    /// The assumption under which the token rises, in a word.
    pub(crate) kind: String,
    /// The same in a sentence.
    pub(crate) text: String,
}

impl Promises {
    pub(crate) fn of(info: &Info) -> Promises {
        let millis = |ttl: std::time::Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let kind = match &info.fencing {
            Fencing::Always => "always",
            Fencing::WhileDataIsKept { .. } => "while-data-is-kept",
            Fencing::WhileAMajorityKeepsItsData { .. } => "while-a-majority-keeps-its-data",
            Fencing::UntilAMajorityLosesItsData { .. } => "until-a-majority-loses-its-data",
            _ => "other",
        };
        Promises {
            address: info.server.clone(),
            lease: info.lease.as_str().to_owned(),
            fair: info.fair.as_str().to_owned(),
            wakes: info.wakes.as_str().to_owned(),
            fencing: FencingReport { kind: kind.to_owned(), text: info.fencing.to_string() },
            clock: info.clock.to_owned(),
            data_loss: info.data_loss.clone(),
            min_ttl_ms: millis(info.min_ttl),
            max_ttl_ms: millis(info.max_ttl),
            requests_per_hand_over: info.requests_per_hand_over,
        }
    }
}

/// One subject at one workload on one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) server: String,
    pub(crate) workload: String,
    pub(crate) parameters: BTreeMap<String, u64>,
    pub(crate) subject: String,
    /// What it is and promises, if it is another library's lock.
    #[serde(default)]
    pub(crate) peer: Option<PeerReport>,
    pub(crate) per_s: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p90_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) rounds: Vec<RoundReport>,
    pub(crate) ratios: Option<Ratios>,
    pub(crate) spread: Option<Spread>,
    pub(crate) extra: BTreeMap<String, f64>,
    /// The upper bound of each bucket in microseconds, and the count in it.
    pub(crate) histogram: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundReport {
    pub(crate) per_s: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// Medians of the rounds' ratios to another subject of the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratios {
    /// That other subject.
    pub(crate) of: String,
    pub(crate) per_s: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// The least and the greatest of the rounds' ratios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) per_s: Option<(f64, f64)>,
    pub(crate) p50: Option<(f64, f64)>,
    pub(crate) p99: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct NotRun {
    pub(crate) server: String,
    pub(crate) workload: String,
    pub(crate) why: String,
}

/// What a subject is compared with, and by which figures.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) subject: &'static str,
    pub(super) tally: &'a Tally,
    pub(super) figures: Figures,
}

/// Which figures two subjects have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figures {
    RateAndLatencies,
    /// Only their rates: their latencies are of different things.
    Rate,
}

impl Base<'_> {
    fn ratios(&self, own: &Tally) -> Ratios {
        let latency = |by| self.has_latencies().then(|| own.ratio(self.tally, by)).flatten();
        Ratios {
            of: self.subject.to_owned(),
            per_s: own.ratio(self.tally, By::Rate),
            p50: latency(By::P50),
            p99: latency(By::P99),
        }
    }

    fn spread(&self, own: &Tally) -> Spread {
        let latency = |by| self.has_latencies().then(|| own.spread(self.tally, by)).flatten();
        Spread { per_s: own.spread(self.tally, By::Rate), p50: latency(By::P50), p99: latency(By::P99) }
    }

    fn has_latencies(&self) -> bool {
        self.figures == Figures::RateAndLatencies
    }
}

impl Row {
    /// Returns the row without its place: the server, the workload and its parameters are left empty.
    pub(super) fn of(subject: &str, tally: &Tally, base: Option<Base<'_>>) -> Row {
        let mut extra: BTreeMap<String, f64> =
            tally.extra().into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect();
        let grants = tally.grants();
        let shared = [("jain", jain(grants)), ("slowest_share", slowest_share(grants))];
        extra.extend(shared.into_iter().filter_map(|(name, figure)| Some((name.to_owned(), figure?))));
        Row {
            server: String::new(),
            workload: String::new(),
            parameters: BTreeMap::new(),
            subject: subject.to_owned(),
            peer: None,
            per_s: tally.rate(),
            p50_us: tally.percentile(50.0),
            p90_us: tally.percentile(90.0),
            p99_us: tally.percentile(99.0),
            max_us: tally.percentile(100.0),
            errors: tally.errors(),
            first_error: tally.first_error().map(str::to_owned),
            rounds: tally.rounds().iter().map(RoundReport::of).collect(),
            ratios: base.map(|base| base.ratios(tally)),
            spread: base.map(|base| base.spread(tally)),
            extra,
            histogram: tally
                .buckets()
                .into_iter()
                .map(|(nanos, count)| (nanos as f64 / 1e3, count))
                .collect(),
        }
    }
}

impl RoundReport {
    fn of(round: &Round) -> RoundReport {
        let micros = |nanos: Option<f64>| nanos.map(|nanos| nanos / 1e3);
        RoundReport { per_s: round.rate, p50_us: micros(round.p50), p99_us: micros(round.p99) }
    }
}

impl Report {
    /// Reads the `report.json` of the folder.
    pub(crate) fn read(folder: &Path) -> Outcome<Report> {
        let file = folder.join(FILE);
        let of_file = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read(&file).map_err(|e| of_file(&e))?;
        // Another version may have other fields.
        let schema: Schema = serde_json::from_slice(&text).map_err(|e| of_file(&e))?;
        if schema.version != VERSION {
            return Err(of_file(&format!("its schema has version {}, not {VERSION}", schema.version)).into());
        }
        Ok(serde_json::from_slice(&text).map_err(|e| of_file(&e))?)
    }

    /// Writes `report.json` into the folder. A reader never sees half of it.
    pub(crate) fn write(&self, folder: &Path) -> Outcome<()> {
        let unfinished = folder.join("report.json.new");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        Ok(fs::rename(unfinished, folder.join(FILE))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Slice;

    fn tally(latency: u64, rate: f64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..2 {
            tally.add(Slice {
                latencies: vec![latency; 4],
                rate,
                grants: vec![10, 30],
                extra: vec![("requests_per_hand_over", 2.0)],
                ..Slice::default()
            });
        }
        tally
    }

    #[test]
    fn a_row_has_the_ratios_of_rate_p50_and_p99_with_their_spread() {
        let (own, floor) = (tally(2_000, 50.0), tally(1_000, 100.0));
        let base = Base { subject: "floor", tally: &floor, figures: Figures::RateAndLatencies };
        let row = Row::of("ours", &own, Some(base));
        let ratios = row.ratios.unwrap();
        assert_eq!((ratios.per_s, ratios.p50, ratios.p99), (Some(0.5), Some(2.0), Some(2.0)));
        assert_eq!(row.spread.unwrap().p50, Some((2.0, 2.0)));
        assert_eq!((row.rounds.len(), row.rounds[0].p50_us), (2, Some(2.0)));
        assert_eq!((row.extra["jain"], row.extra["slowest_share"]), (0.8, 0.5));
        assert_eq!(row.histogram.iter().map(|(_, count)| count).sum::<u64>(), 8);
    }

    #[test]
    fn latencies_of_different_things_have_no_ratio() {
        let (own, floor) = (tally(2_000, 50.0), tally(1_000, 100.0));
        let base = Base { subject: "floor", tally: &floor, figures: Figures::Rate };
        let row = Row::of("ours", &own, Some(base));
        let ratios = row.ratios.unwrap();
        assert_eq!((ratios.per_s, ratios.p50, ratios.p99), (Some(0.5), None, None));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || Report::read(folder.path()).unwrap_err().to_string();
        assert!(refused().contains("report.json"));
        let report: Report = serde_json::from_str(include_str!("../../tests/page/report.json")).unwrap();
        report.write(folder.path()).unwrap();
        assert_eq!(Report::read(folder.path()).unwrap(), report);
        fs::write(folder.path().join(FILE), r#"{"version": 2}"#).unwrap();
        assert!(refused().contains("version 2, not 1"));
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for row in [Row::of("ours", &tally(2_345, 1.0), None), Row::of("ours", &Tally::default(), None)] {
            let text = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        }
    }
}
