//! The bars: what the library has to reach on each server, and whether it did in one run.
//!
//! A verdict is a function of the report alone, as those on [claims](super::claims) are.

mod crowds;
mod length;
mod recovery;
mod requests;
#[cfg(test)]
mod sample;

use super::judged::BarReport;
use super::report::{Promises, Report, ServerReport};
use crate::targets::Bound;

/// A bar that each server has to reach that it is about.
struct Bar {
    id: &'static str,
    text: &'static str,
    judge: fn(&Measured<'_>) -> Judged,
}

/// A server of a report that was measured.
struct Measured<'a> {
    report: &'a Report,
    server: &'a ServerReport,
    promises: &'a Promises,
}

/// A figure with its bound.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    figure: f64,
    bound: Bound,
    /// What the figure is.
    says: String,
}

/// What a bar's function returns: nothing if the bar is not about this server; an error says why the run has no figure.
type Judged = Result<Option<Check>, String>;

const BARS: [Bar; 4] = [
    Bar {
        id: "half-of-raw",
        text: "Where releases are pushed, 64 contenders in eight processes make at least half as many hand-overs as two \
               processes with the raw driver.",
        judge: crowds::half_of_raw,
    },
    Bar {
        id: "shares",
        text: "Where processes are served in order, Jain's index of the contenders' shares is at least 0.9. Elsewhere no \
               contender gets less than a fifth of the mean.",
        judge: crowds::shares,
    },
    Bar {
        id: "recovery",
        text: "A waiter has the lock of a process that was killed at most 100 ms after the ttl.",
        judge: recovery::within_the_ttl,
    },
    Bar {
        id: "requests",
        text: "Where processes are served in order, a hand-over costs the same number of requests however many processes \
               wait. Elsewhere it costs what Info says, and one more for each process that waits.",
        judge: requests::of_a_hand_over,
    },
];

const QUICK_RUN: &str = "quick-run";
const QUICK_RUN_TEXT: &str = "A quick run of all servers takes at most ten minutes.";

/// Judges every bar by what a run has measured.
pub(super) fn judge(report: &Report) -> Vec<BarReport> {
    let servers = report.servers.iter().filter(|server| !is_judged_without_its_disk(report, server));
    let of_servers = servers.flat_map(|server| BARS.iter().filter_map(|bar| bar.on(report, server)));
    let of_run = BarReport::of(QUICK_RUN, QUICK_RUN_TEXT, None, length::of_a_quick_run(report));
    of_servers.chain([of_run]).collect()
}

/// Whether the same kind of server was measured without a disk, too: what the disk adds is not the library's.
fn is_judged_without_its_disk(report: &Report, server: &ServerReport) -> bool {
    let is_same = |other: &ServerReport| other.backend == server.backend && other.durable == Some(false);
    server.durable == Some(true) && report.servers.iter().any(is_same)
}

impl Bar {
    /// Returns the verdict on a server; `None` if the bar is not about it.
    fn on(&self, report: &Report, server: &ServerReport) -> Option<BarReport> {
        let judged = match &server.info {
            Some(promises) => (self.judge)(&Measured { report, server, promises }),
            None => Err(server.not_run.clone().unwrap_or_else(|| "this run did not come to it".to_owned())),
        };
        Some(BarReport::of(self.id, self.text, Some(&server.name), judged.transpose()?))
    }
}

impl BarReport {
    fn of(id: &str, text: &str, server: Option<&str>, judged: Result<Check, String>) -> BarReport {
        let (verdict, figure, bound, because) = match judged {
            Ok(Check { figure, bound, says }) => {
                let verdict = if bound.is_reached_by(figure) { "met" } else { "not-met" };
                (verdict, Some(figure), Some(bound.to_string()), says)
            }
            Err(why) => ("not-measured", None, None, why),
        };
        BarReport {
            id: id.to_owned(),
            text: text.to_owned(),
            server: server.map(str::to_owned),
            verdict: verdict.to_owned(),
            figure,
            bound,
            because,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::Data;
    use super::*;

    #[test]
    fn without_any_row_no_bar_is_met_or_missed() {
        let bars = judge(&Data::on("etcd", "per process", "pushed").report());
        assert_eq!(bars.len(), BARS.len() + 1);
        assert!(bars.iter().all(|bar| bar.verdict == "not-measured" && !bar.because.is_empty()), "{bars:?}");
    }

    #[test]
    fn a_server_that_is_not_there_has_the_reason() {
        let mut report = Data::on("etcd", "per process", "pushed").report();
        report.servers[0].info = None;
        report.servers[0].not_run = Some("there is no etcd on this machine".to_owned());
        let bars = judge(&report);
        assert_eq!(
            bars.iter().filter(|bar| bar.because == "there is no etcd on this machine").count(),
            BARS.len()
        );
    }

    #[test]
    fn a_kind_that_is_there_with_a_disk_too_is_judged_once() {
        let mut report = Data::on("redis", "no", "pushed").report();
        let durable = ServerReport {
            name: "redis-durable".to_owned(),
            durable: Some(true),
            ..report.servers[0].clone()
        };
        report.servers.push(durable);
        assert!(judge(&report).iter().all(|bar| bar.server.as_deref() != Some("redis-durable")));
        report.servers.remove(0);
        assert!(judge(&report).iter().any(|bar| bar.server.as_deref() == Some("redis-durable")));
    }

    #[test]
    fn the_documents_have_every_bar() {
        let document = include_str!("../../../REPORT.md");
        for id in BARS.iter().map(|bar| bar.id).chain([QUICK_RUN]) {
            assert!(document.contains(&format!("| `{id}` |")), "{id} is not in REPORT.md");
        }
    }
}
