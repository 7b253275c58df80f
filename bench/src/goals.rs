//! The goals of the library on each server, and their verdicts for one run. A verdict is a function of the report
//! alone, as those on [claims](crate::claims) are.

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::case::Case;
use crate::report::{Promises, Report, Server};
use crate::row::Row;
use crate::subjects::{Kind, TTL};

/// A goal on one server, or of the whole run, with the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    pub(crate) id: String,
    /// `None` if it is about the whole run.
    pub(crate) server: Option<String>,
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

use Bound::{AtLeast, AtMost};

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
    ("cycle", cycle),
    ("many-names", many_names),
    ("one-name", one_name),
    ("one-lost", one_lost),
    ("hand-over", hand_over),
    ("crowd", crowd),
    ("shares", shares),
    ("processes", processes),
    ("requests", requests),
    ("polls", polls),
    ("held", held),
    ("recovery", recovery),
];
const QUICK_RUN: &str = "quick-run";

const DOCUMENT: &str = include_str!("../README.md");

/// Returns each goal's name and text, as the document has them.
pub(crate) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, goals) = DOCUMENT.split_once("## Goals").unwrap_or_default();
    goals.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
}

/// Judges every goal by what a run has measured.
pub(crate) fn judge(report: &Report) -> Vec<Goal> {
    let measured = report.measured().filter(|(server, _)| !is_judged_without_its_disk(report, server));
    let mut goals = Vec::new();
    for (server, promises) in measured {
        let on = On { report, server, promises };
        let judged = GOALS
            .iter()
            .filter_map(|(id, judge)| Some(Goal::of(id, Some(&server.name), judge(&on).transpose()?)));
        goals.extend(judged);
    }
    goals.push(Goal::of(QUICK_RUN, None, quick_run(report)));
    goals
}

/// Returns whether the same kind was measured without a disk, too: what the disk adds is not the library's.
fn is_judged_without_its_disk(report: &Report, server: &Server) -> bool {
    let is_same = |other: &Server| other.backend == server.backend && other.durable == Some(false);
    server.durable == Some(true) && report.servers.iter().any(is_same)
}

impl Goal {
    fn of(id: &str, server: Option<&str>, judged: Result<Check, String>) -> Goal {
        let (id, server) = (id.to_owned(), server.map(str::to_owned));
        match judged {
            Ok(Check { figure, bound, says }) => {
                let (is_met, bound) = match bound {
                    AtMost(most) => (figure <= most, format!("<= {most}")),
                    AtLeast(least) => (figure >= least, format!(">= {least}")),
                };
                let verdict = if is_met { Verdict::Met } else { Verdict::Missed };
                Goal { id, server, verdict, figure: Some(figure), bound: Some(bound), says }
            }
            Err(says) => Goal { id, server, verdict: Verdict::NotMeasured, figure: None, bound: None, says },
        }
    }
}

fn check(figure: Option<f64>, bound: Bound, says: impl Into<String>) -> Judged {
    let figure = figure.ok_or("no cycle of it ended, or there is nothing to compare with")?;
    Ok(Some(Check { figure, bound, says: says.into() }))
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

fn rate_ratio(row: &Row) -> Option<f64> {
    row.ratios.as_ref()?.per_s
}

fn cycle(on: &On<'_>) -> Judged {
    let row = on.row(Case::OwnNames { tasks: 1 })?;
    match on.is(Backend::Memory) {
        true => check(row.p50_us, AtMost(5.0), "microseconds, the p50 of a cycle"),
        false => check(rate_ratio(row), AtLeast(0.8), "times the baseline's rate"),
    }
}

fn many_names(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    check(rate_ratio(on.row(Case::OwnNames { tasks: 64 })?), AtLeast(0.7), "times the baseline's rate")
}

fn one_name(on: &On<'_>) -> Judged {
    let (one, eight) =
        (on.row(Case::OwnNames { tasks: 1 })?, on.row(Case::OneName { contenders: 8, processes: 1 })?);
    let figure = (one.per_s > 0.0).then(|| eight.per_s / one.per_s);
    check(
        figure,
        AtLeast(1.7),
        "times the rate of one task: a hand-over inside a process takes one round trip",
    )
}

fn one_lost(on: &On<'_>) -> Judged {
    if !on.is(Backend::Redlock) {
        return Ok(None);
    }
    let p50 = |kind| on.report.row(&on.server.name, Case::OneLost, kind).map(|row| row.ratios.as_ref()?.p50);
    let worst = p50(Kind::OneDead)?.zip(p50(Kind::OneSilent)?).map(|(dead, silent)| dead.max(silent));
    check(worst, AtMost(1.1), "times the p50 with all servers, the worse of dead and silent")
}

fn hand_over(on: &On<'_>) -> Judged {
    if !on.has_waiting_driver() {
        return Ok(None);
    }
    let row = on.row(Case::HandOver)?;
    check(row.ratios.as_ref().and_then(|ratios| ratios.p50), AtMost(1.5), "times the baseline's p50")
}

/// Each contender needs so many grants on average: of fewer, a small share may be chance.
const ENOUGH: u64 = 20;

fn crowd(on: &On<'_>) -> Judged {
    if !on.has_waiting_driver() {
        return Ok(None);
    }
    let row = on.row(Case::OneName { contenders: 64, processes: 8 })?;
    check(rate_ratio(row), AtLeast(0.5), "times the hand-overs of two processes of the baseline")
}

/// Judges the most uneven of the crowds.
fn shares(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    let (name, least) = if on.promises.fair == "no" { ("slowest_share", 0.2) } else { ("jain", 0.9) };
    let enough = on.crowds().filter(|(contenders, _, row)| row.count >= contenders * ENOUGH);
    let shares = enough.filter_map(|(contenders, processes, row)| {
        Some((*row.extra.get(name)?, format!("{name} of {contenders} contenders in {processes} processes")))
    });
    let (figure, says) = shares
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .ok_or_else(|| format!("no crowd had {ENOUGH} grants for each contender"))?;
    check(Some(figure), AtLeast(least), says)
}

fn processes(on: &On<'_>) -> Judged {
    if !matches!(on.server.backend, Backend::Redis | Backend::Postgres | Backend::Mongo)
        || on.promises.wakes != "pushed"
    {
        return Ok(None);
    }
    check(
        on.row(Case::Processes)?.p99_us.map(|micros| micros / 1e3),
        AtMost(40.0),
        "milliseconds, the p99 of the waits",
    )
}

/// So many times as many requests still are the same number, as in the conformance suite.
const FLAT: f64 = 1.5;
/// Clients send some more requests now and then: renewals, looks, and those for the count.
const BESIDES: f64 = 1.05;

fn requests(on: &On<'_>) -> Judged {
    if matches!(on.server.backend, Backend::Memory | Backend::Sqlite) {
        return Ok(None);
    }
    let counted: Vec<(u64, u64, f64)> = on
        .crowds()
        .filter_map(|(contenders, processes, row)| {
            Some((contenders, processes, *row.extra.get("requests_per_hand_over")?))
        })
        .collect();
    if on.promises.fair != "no" {
        // Those with one contender in each process.
        let single = counted.iter().filter(|(contenders, processes, _)| contenders == processes);
        let ends = single.clone().min_by_key(|crowd| crowd.1).zip(single.max_by_key(|crowd| crowd.1));
        let ((_, few, least), (_, many, most)) = ends
            .filter(|(few, many)| few.1 < many.1 && few.2 > 0.0)
            .ok_or("requests were not counted with two numbers of processes")?;
        let says = format!("times as many: {most:.1} requests with {many} processes, {least:.1} with {few}");
        return check(Some(most / least), AtMost(FLAT), says);
    }
    // A waiter's attempt asks every server of Redlock.
    let servers = if on.is(Backend::Redlock) { on.promises.address.split(',').count() } else { 1 };
    let allowed = |processes: u64| {
        f64::from(on.promises.requests_per_hand_over) + ((processes - 1) * servers as u64) as f64
    };
    let worst = counted
        .iter()
        .map(|(_, processes, requests)| (requests / allowed(*processes), *processes, *requests))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let (figure, processes, requests) =
        worst.ok_or("the server does not count requests, or not soon enough")?;
    let says = format!(
        "times the {:.0} requests that are allowed with {processes} processes: {requests:.1}",
        allowed(processes)
    );
    check(Some(figure), AtMost(BESIDES), says)
}

fn polls(on: &On<'_>) -> Judged {
    if on.promises.wakes != "polled" {
        return Ok(None);
    }
    let delay = on.row(Case::Delay)?.extra.get("delay_over_allowed").copied();
    check(delay, AtMost(1.0), "times the delay that is allowed, at the 99th percentile")
}

fn held(on: &On<'_>) -> Judged {
    let row = on.row(Case::Held { locks: 10_000 }).or_else(|_| on.row(Case::Held { locks: 1_000 }))?;
    let figure = |name: &str| row.extra.get(name).copied();
    let (core, bytes) = (figure("core_share"), figure("bytes_per_lock"));
    let is_default_ttl = figure("ttl_ms") == Some(TTL.as_millis() as f64) && row.case.ends_with("=10000");
    match core.filter(|core| is_default_ttl && *core > 0.05) {
        Some(core) => check(Some(core), AtMost(0.05), "of a core"),
        None => check(bytes, AtMost(2_500.0), format!("bytes a lock ({})", row.case)),
    }
}

fn recovery(on: &On<'_>) -> Judged {
    if on.is(Backend::Memory) {
        return Ok(None);
    }
    let late = on.row(Case::Recovery)?.extra.get("recovery_over_ttl_ms").copied();
    check(
        late,
        AtMost(100.0),
        "milliseconds from the end of the ttl, the longest recovery; below 0 is before it",
    )
}

/// Judges a quick run of every server that this program knows, with nothing left out and nothing added.
fn quick_run(report: &Report) -> Result<Check, String> {
    let kinds = crate::servers::Asked::everything();
    let has = |name: &String| report.servers.iter().any(|server| server.name == *name);
    let has_peers = report.rows.iter().any(|row| !row.lacks.is_empty());
    if !report.quick || has_peers || !kinds.iter().all(|asked| has(&asked.name())) {
        return Err("this is not a quick run of all servers".to_owned());
    }
    if !report.complete || report.servers.iter().any(|server| server.info.is_none()) {
        return Err(format!("it took {:.0} s without some of the servers", report.took_s));
    }
    Ok(Check { figure: report.took_s, bound: AtMost(600.0), says: "seconds".to_owned() })
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
        let is_it = |goal: &Goal| goal.id == id && goal.server.as_ref() == Some(&server);
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
        let counted = |row: &mut Row| row.count = 64 * ENOUGH;
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
        assert_eq!(with(64 * ENOUGH), Verdict::Missed);
        assert_ne!(with(64 * ENOUGH - 1), Verdict::Missed, "it may be chance");
    }

    #[test]
    fn a_quick_run_of_all_servers_has_ten_minutes() {
        let mut report = sample();
        assert!(quick_run(&report).is_err(), "some servers are missing");
        let server = report.servers[0].clone();
        let all = crate::servers::Asked::everything();
        report.servers = all.iter().map(|asked| Server { name: asked.name(), ..server.clone() }).collect();
        (report.quick, report.complete) = (true, true);
        let verdict =
            |took_s| Goal::of(QUICK_RUN, None, quick_run(&Report { took_s, ..report.clone() })).verdict;
        assert_eq!((verdict(600.0), verdict(601.0)), (Verdict::Met, Verdict::Missed));
    }

    #[test]
    fn the_document_has_every_goal() {
        let ids = GOALS.iter().map(|(id, _)| *id).chain([QUICK_RUN]);
        assert_eq!(texts().map(|(id, _)| id).collect::<Vec<_>>(), ids.collect::<Vec<_>>());
    }
}
