//! The plots of a report.

use super::distribution::Distribution;
use super::dots::{DotRow, Dots, Scale};
use super::html::{Html, paragraph, section};
use crate::compare::figures::{extra, figure, micros, millis, number, ours};
use crate::compare::report::{Report, Row, ServerReport};
use crate::compare::workload::Case;

/// Returns the section with all plots.
pub(super) fn plots(report: &Report) -> Html {
    let says = "Each plot has a row for each server. Below it are the same figures as a table.";
    let distributions = DISTRIBUTIONS.iter().map(|plot| plot.html(report)).collect::<Html>();
    let dots = [own_names, names, one_name, requests, recovery, failover, fairness, renewal]
        .map(|plot| plot(report).html());
    let dots = dots.into_iter().collect::<Html>();
    section("plots", "The figures as pictures", paragraph(says).then(distributions).then(dots))
}

const DISTRIBUTIONS: [Distribution; 2] = [
    Distribution {
        id: "latency",
        table_id: "latency-table",
        title: "Latency of one cycle",
        description: "One task acquires and releases one lock, again and again. The further to the left, the faster.",
        case: Case::OwnNames { tasks: 1 },
    },
    Distribution {
        id: "open-loop",
        table_id: "open-loop-table",
        title: "Latency under load",
        description: "Cycles on 64 names begin on a fixed schedule, at half of the rate of which the slower of the \
                      library and its floor is capable. Latency counts from the intended start, so that a slow cycle \
                      hides no other one's wait. The schedules of two servers differ.",
        case: Case::OpenLoop { percent: 50 },
    },
];

const OWN_NAMES: [Case; 4] = [
    Case::OwnNames { tasks: 1 },
    Case::OwnNames { tasks: 8 },
    Case::OwnNames { tasks: 64 },
    Case::OwnNames { tasks: 512 },
];

/// Contenders in this process, then in eight others.
const ONE_NAME: [Case; 4] = [
    Case::OneName { contenders: 8, processes: 1 },
    Case::OneName { contenders: 64, processes: 1 },
    Case::OneName { contenders: 8, processes: 8 },
    Case::OneName { contenders: 64, processes: 8 },
];

const CONTENDERS: &[&str] =
    &["8 in one process", "64 in one process", "8 in eight processes", "64 in eight processes"];

fn own_names(report: &Report) -> Dots {
    Dots {
        id: "own-names",
        table_id: "own-names-table",
        title: "Throughput of locks that don't compete",
        description: "Cycles a second of 1 to 512 tasks, each on a name of its own. More is better.",
        scale: Scale::Logarithmic,
        write: number,
        bar: None,
        series: &["1 task", "8 tasks", "64 tasks", "512 tasks"],
        rows: rows(report, &OWN_NAMES, |row| figure(row, |row| Some(row.per_s))),
    }
}

const NAMES: [Case; 3] =
    [Case::Names { names: 10 }, Case::Names { names: 1_000 }, Case::Names { names: 10_000 }];

fn names(report: &Report) -> Dots {
    Dots {
        id: "names",
        table_id: "names-table",
        title: "Growth with names",
        description: "The time of one cycle, p50, of names that are each used once, one after the other. Less is better. \
                      It should not grow with the number of names.",
        scale: Scale::Logarithmic,
        write: micros,
        bar: None,
        series: &["10 names", "1,000 names", "10,000 names"],
        rows: rows(report, &NAMES, |row| figure(row, |row| row.p50_us)),
    }
}

fn one_name(report: &Report) -> Dots {
    Dots {
        id: "one-name",
        table_id: "one-name-table",
        title: "Throughput by contenders",
        description: "Grants a second of one name for which 8 or 64 contenders compete. More is better.",
        scale: Scale::Logarithmic,
        write: number,
        bar: None,
        series: CONTENDERS,
        rows: rows(report, &ONE_NAME, |row| figure(row, |row| Some(row.per_s))),
    }
}

/// One contender in each process: all but the holder's process wait.
const WAITING: [Case; 3] = [
    Case::OneName { contenders: 2, processes: 2 },
    Case::OneName { contenders: 8, processes: 8 },
    Case::OneName { contenders: 32, processes: 32 },
];

fn requests(report: &Report) -> Dots {
    Dots {
        id: "requests",
        table_id: "requests-table",
        title: "Requests for a hand-over",
        description: "How many requests the server receives for each grant of one name, by the number of processes that \
                      wait for it. Less is better. Where processes are served in order, the number stays the same.",
        scale: Scale::Logarithmic,
        write: number,
        bar: None,
        series: &["1 process waits", "7 processes wait", "31 processes wait"],
        rows: rows(report, &WAITING, |row| extra(row, "requests_per_hand_over")),
    }
}

fn recovery(report: &Report) -> Dots {
    Dots {
        id: "recovery",
        table_id: "recovery-table",
        title: "Recovery after a crash",
        description: "A process that holds a lock is killed while a client of another process waits. Shown is the \
                      longest time until the waiter has the lock, less the ttl. Less is better; below zero, the \
                      waiter has it before a whole ttl is over, because the last renewal was some time before the \
                      kill.",
        scale: Scale::Linear,
        write: millis,
        bar: None,
        series: &["the longest, less the ttl"],
        rows: rows(report, &[Case::Recovery], |row| extra(row, "recovery_over_ttl_ms")),
    }
}

fn failover(report: &Report) -> Dots {
    Dots {
        id: "failover",
        table_id: "failover-table",
        title: "Failover",
        description: "The leader of a cluster is killed, or one of the five servers of Redlock. Shown is the longest time \
                      until a free lock is granted again. Less is better.",
        scale: Scale::Logarithmic,
        write: micros,
        bar: None,
        series: &["the longest"],
        rows: rows(report, &[Case::Failover], |row| figure(row, |row| row.max_us)),
    }
}

fn fairness(report: &Report) -> Dots {
    Dots {
        id: "fairness",
        table_id: "fairness-table",
        title: "Fairness",
        description: "Jain's index of the contenders' shares of the grants: 1 if all are equal, and 1/n if one of n \
                      contenders has all of them. More is better.",
        scale: Scale::Linear,
        write: number,
        bar: Some((0.9, "0.9: what a server has to reach that serves processes in order")),
        series: CONTENDERS,
        rows: rows(report, &ONE_NAME, |row| extra(row, "jain")),
    }
}

fn renewal(report: &Report) -> Dots {
    Dots {
        id: "renewal",
        table_id: "renewal-table",
        title: "Cost of renewals",
        description: "Locks are held and renewed. Shown is the share of a processor's core that the client's process \
                      uses for it, without the server. Less is better.",
        scale: Scale::Logarithmic,
        write: percent,
        bar: None,
        series: &["100 locks", "1,000 locks", "10,000 locks"],
        rows: rows(report, &HELD, |row| extra(row, "core_share")),
    }
}

const HELD: [Case; 3] =
    [Case::Held { locks: 100 }, Case::Held { locks: 1_000 }, Case::Held { locks: 10_000 }];

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Returns the figures of each server at each of these cases.
fn rows(
    report: &Report,
    cases: &[Case],
    figure: impl Fn(Result<&Row, String>) -> Result<f64, String>,
) -> Vec<DotRow> {
    let figures = |server: &ServerReport| DotRow {
        server: server.name.clone(),
        figures: cases.iter().map(|case| figure(ours(report, server, *case))).collect(),
    };
    report.servers.iter().map(figures).collect()
}
