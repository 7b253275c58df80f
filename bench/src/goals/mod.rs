//! The goals of the library on each server, and their verdicts for one run. A verdict is a function of the report
//! alone, as those on [claims](crate::claims) are.

mod judges;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::case::Case;
use crate::report::{Promises, Report, Server};
use crate::row::Row;
use crate::subjects::Kind;

/// A goal on one server, with the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    pub(crate) id: String,
    pub(crate) server: String,
    pub(crate) verdict: Verdict,
    pub(crate) figure: Option<f64>,
    /// The figure has to reach this: `>= 0.5`.
    pub(crate) bound: Option<String>,
    /// Says of what the figure is, or why there is none.
    pub(crate) says: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    NotMeasured,
}

struct Check {
    figure: f64,
    bound: Bound,
    says: String,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// A goal is judged on one server, or is not about it. An error says why there is no figure.
type Judged = Result<Option<Check>, String>;

struct On<'a> {
    report: &'a Report,
    server: &'a Server,
    promises: &'a Promises,
}

type Judge = fn(&On<'_>) -> Judged;

/// The goals of each server, by their names in bench/README.md.
const GOALS: [(&str, Judge); 12] = [
    ("cycle", judges::cycle),
    ("many-names", judges::many_names),
    ("one-name", judges::one_name),
    ("one-lost", judges::one_lost),
    ("hand-over", judges::hand_over),
    ("crowd", judges::crowd),
    ("shares", judges::shares),
    ("processes", judges::processes),
    ("requests", judges::requests),
    ("polls", judges::polls),
    ("held", judges::held),
    ("recovery", judges::recovery),
];

/// Returns each goal's name and text, as the document has them.
pub(crate) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, goals) = include_str!("../../README.md").split_once("## Goals").unwrap_or_default();
    goals.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
}

/// Judges every goal by what a run has measured.
pub(crate) fn judge(report: &Report) -> Vec<Goal> {
    let measured = report.measured().filter(|(server, _)| !is_judged_without_its_disk(report, server));
    let all = measured.flat_map(|(server, promises)| {
        let on = On { report, server, promises };
        GOALS.iter().filter_map(move |(id, judge)| Some(Goal::of(id, &server.name, judge(&on).transpose()?)))
    });
    all.collect()
}

/// Returns whether the same kind was measured without a disk, too: what the disk adds is not the library's.
fn is_judged_without_its_disk(report: &Report, server: &Server) -> bool {
    let is_same = |other: &Server| other.backend == server.backend && other.durable == Some(false);
    server.durable == Some(true) && report.servers.iter().any(is_same)
}

impl Goal {
    fn of(id: &str, server: &str, judged: Result<Check, String>) -> Goal {
        let [id, server] = [id, server].map(str::to_owned);
        match judged {
            Ok(Check { figure, bound, says }) => {
                let (is_met, bound) = match bound {
                    Bound::AtMost(most) => (figure <= most, format!("<= {most}")),
                    Bound::AtLeast(least) => (figure >= least, format!(">= {least}")),
                };
                let verdict = if is_met { Verdict::Met } else { Verdict::Missed };
                Goal { id, server, verdict, figure: Some(figure), bound: Some(bound), says }
            }
            Err(says) => Goal { id, server, verdict: Verdict::NotMeasured, figure: None, bound: None, says },
        }
    }
}

impl On<'_> {
    fn row(&self, case: Case) -> Result<&Row, String> {
        self.report.row(&self.server.name, case, Kind::Ours)
    }

    fn is(&self, backend: Backend) -> bool {
        self.server.backend == backend
    }

    /// Returns whether the raw driver can wait for a release, too.
    fn has_waiting_driver(&self) -> bool {
        self.promises.wakes == "pushed" && !self.is(Backend::Memory) && !self.is(Backend::Redlock)
    }

    /// Returns the library's rows of contenders in more than one process.
    fn crowds(&self) -> impl Iterator<Item = (u64, u64, &Row)> {
        Case::all().filter_map(move |case| match case {
            Case::OneName { contenders, processes: processes @ 2.. } => {
                Some((contenders as u64, processes as u64, self.row(case).ok()?))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::tests::sample;
    use crate::row::Ratios;

    /// Judges a goal on one server of the sample, whose row of this case is replaced.
    fn judged(id: &str, server: &str, case: Case, set: impl Fn(&mut Row)) -> Verdict {
        let mut report = sample();
        let (subject, text) = (Kind::Ours.as_str(), case.to_string());
        report.rows.retain(|row| (&*row.server, &row.case, &*row.subject) != (server, &text, subject));
        let [server, subject] = [server, subject].map(str::to_owned);
        let mut row = Row { server: server.clone(), case: text, subject, ..Row::default() };
        set(&mut row);
        report.rows.push(row);
        let is_it = |goal: &Goal| goal.id == id && goal.server == server;
        judge(&report).into_iter().find(is_it).unwrap().verdict
    }

    fn rate(row: &mut Row, per_s: f64) {
        row.ratios = Some(Ratios { per_s: Some(per_s), ..Ratios::default() });
    }

    fn extra(name: &'static str) -> impl Fn(&mut Row, f64) {
        move |row, figure| row.extra = BTreeMap::from([(name.to_owned(), figure)])
    }

    #[test]
    fn every_goal_can_be_met_and_missed() {
        type Set<'a> = &'a dyn Fn(&mut Row, f64);
        let [one, many] = [1, 64].map(|tasks| Case::OwnNames { tasks });
        let within = Case::OneName { contenders: 8, processes: 1 };
        let eight = Case::OneName { contenders: 8, processes: 8 };
        let crowd = Case::OneName { contenders: 64, processes: 8 };
        let alone = sample().ours("redis", one, |row| Some(row.per_s)).unwrap();
        let times: Set<'_> = &|row, figure| row.per_s = figure * alone;
        let cycle: Set<'_> = &|row, micros| row.p50_us = Some(micros);
        let waits: Set<'_> = &|row, millis| row.p99_us = Some(millis * 1e3);
        let p50: Set<'_> = &|row, p50| row.ratios = Some(Ratios { p50: Some(p50), ..Ratios::default() });
        let [bytes, late, delay] =
            ["bytes_per_lock", "recovery_over_ttl_ms", "delay_over_allowed"].map(extra);
        let [jain, slowest, requests] = ["jain", "slowest_share", "requests_per_hand_over"].map(extra);
        let counted = |row: &mut Row| row.count = 64 * judges::ENOUGH;
        for (id, server, case, set, good, bad) in [
            ("cycle", "redis", one, &rate as Set<'_>, 0.8, 0.79),
            ("cycle", "memory", one, cycle, 5.0, 5.1),
            ("many-names", "redis", many, &rate, 0.7, 0.69),
            ("one-name", "redis", within, times, 1.71, 1.69),
            ("hand-over", "redis", Case::HandOver, p50, 1.5, 1.51),
            ("crowd", "redis", crowd, &rate, 0.5, 0.49),
            ("shares", "redis", crowd, &slowest, 0.2, 0.19),
            ("shares", "etcd", crowd, &jain, 0.9, 0.89),
            ("processes", "redis", Case::Processes, waits, 40.0, 40.1),
            ("requests", "redis", eight, &requests, 9.4, 9.5),
            ("polls", "mariadb", Case::Delay, &delay, 1.0, 1.1),
            ("held", "redis", Case::Held { locks: 1_000 }, &bytes, 2_500.0, 2_501.0),
            ("recovery", "redis", Case::Recovery, &late, 100.0, 100.1),
        ] {
            let with = |figure| {
                judged(id, server, case, |row| {
                    counted(row);
                    set(row, figure);
                })
            };
            assert_eq!((with(good), with(bad)), (Verdict::Met, Verdict::Missed), "{id} on {server}");
        }
    }

    #[test]
    fn a_crowd_with_few_grants_has_no_shares() {
        let crowd = Case::OneName { contenders: 64, processes: 8 };
        let with = |grants| {
            judged("shares", "redis", crowd, |row| {
                extra("slowest_share")(row, 0.19);
                row.count = grants;
            })
        };
        assert_eq!(with(64 * judges::ENOUGH), Verdict::Missed);
        assert_ne!(with(64 * judges::ENOUGH - 1), Verdict::Missed, "it may be chance");
    }

    #[test]
    fn the_document_has_every_goal() {
        assert!(texts().map(|(id, _)| id).eq(GOALS.iter().map(|(id, _)| *id)));
    }
}
