//! How each figure was measured, and on which machine.

use super::decision::definitions;
use super::html::{Html, element, list, paragraph, section};
use super::table::{Cell, Column, Layout, Table};
use crate::compare::figures::number;
use crate::compare::report::Report;
use crate::compare::workload::Workload;
use crate::machine::Machine;

/// Returns the section on the method.
pub(super) fn method(report: &Report) -> Html {
    let rows = Workload::ALL.into_iter().map(|workload| {
        let (done, timed) = described(workload);
        let rounds = report.rows.iter().filter(|row| row.workload == workload.as_str());
        let rounds = rounds.map(|row| row.rounds.len()).max();
        let rounds = match rounds {
            Some(rounds) => Cell::number(rounds.to_string(), Some(rounds as f64)),
            None => Cell::of("not measured"),
        };
        vec![Cell::of(workload.as_str()), Cell::of(done), Cell::of(timed), rounds].into()
    });
    let table = Table {
        id: "workloads",
        caption: "The workloads: what is done, and what is timed".to_owned(),
        layout: Layout::Stack,
        columns: vec![
            Column::text("workload"),
            Column::sentences("what is done"),
            Column::sentences("what is timed"),
            Column::number("rounds"),
        ],
        rows: rows.collect(),
    };
    section("method", "How each figure was measured", list(RULES).then(table.html()))
}

const RULES: [&str; 5] = [
    "Subjects take turns in slices, in interleaved rounds, each of which begins with another subject. A ratio is \
     computed within a round, and its median is shown, so that other work of the machine affects both sides alike.",
    "The floor is the raw driver that sends the very requests that the library sends, and does nothing else. A ratio \
     to it says what the library costs.",
    "Throughput is measured in a closed loop, latency under load in an open one, as separate runs.",
    "A rate is the median of the rounds. A latency is of all rounds together. A failed cycle is counted as an error, \
     and is in no other figure.",
    "Read the ratios first. The figures themselves depend on the machine.",
];

/// Returns what is done at a workload, and what is timed.
fn described(workload: Workload) -> (&'static str, &'static str) {
    match workload {
        Workload::OwnNames => (
            "Tasks of one client, each on a name of its own, acquire and release.",
            "One cycle: acquire and release, both confirmed.",
        ),
        Workload::OpenLoop => (
            "Cycles on 64 names begin on a fixed schedule, at a share of the rate of the closed loop.",
            "From the intended start to the end of the cycle.",
        ),
        Workload::Names => (
            "Names are used one after the other, each once.",
            "One cycle of a new name. What the server keeps is counted before and after.",
        ),
        Workload::OneName => (
            "Contenders of one process, or of up to 32 others, compete for one name. Each releases as soon as it has \
             the lock.",
            "The wait for the lock. The floor is the raw driver's hand-over between two processes, by its rate alone.",
        ),
        Workload::HandOver => (
            "Two processes hold one name in turn.",
            "From before the release in the one to the grant in the other, which waits.",
        ),
        Workload::Delay => (
            "Where releases are not pushed: eight pairs of processes, each on a name of its own. One process waits \
             50 ms to 3 s for the other's release.",
            "From before the release to the grant.",
        ),
        Workload::Waiting => (
            "Processes have waited for one name for more than 10 s.",
            "Nothing. The server's own count of its requests is read.",
        ),
        Workload::OneLost => (
            "On Redlock: one task on one name, while one of the servers is dead, or takes requests and answers none.",
            "One cycle.",
        ),
        Workload::Renewal => (
            "One holder renews again and again, alone, and while 100 clients of another process wait for its lock.",
            "One renewal.",
        ),
        Workload::Commits => (
            "On PostgreSQL: one connection updates another table, beside a process in which 64 loops take and release \
             a name every 50 ms.",
            "One commit.",
        ),
        Workload::Held => (
            "Many locks are held, with a ttl of about three times the time for which they are watched.",
            "Nothing. Renewals, the CPU time and the memory of a process of their own are counted.",
        ),
        Workload::ServerCpu => (
            "As own-names with 8 tasks, on a server that this program started.",
            "One cycle. The CPU time of the server's processes is read before and after.",
        ),
        Workload::Recovery => (
            "A process that holds a lock with a short ttl is killed (-9), while a client of another process waits.",
            "From the kill to the grant.",
        ),
        Workload::Failover => (
            "On a cluster of its own, of three members, or five of Redlock: the leader is killed (-9), or one of the \
             five. Two locks are held meanwhile, one with the default ttl and one with the shortest.",
            "From the kill until a client is granted a free lock, and whether the held locks are kept.",
        ),
        Workload::Claims => (
            "Cases of the conformance suite, and scenes, are played on the schemes of the texts and on the library.",
            "Nothing, or what the scene says.",
        ),
        Workload::Loss => {
            ("The server is killed while 16 locks are held.", "From the kill to each signal of a loss.")
        }
    }
}

/// Returns the section on the machine.
pub(super) fn machine(report: &Report) -> Html {
    let Machine { fixed, load } = &report.machine;
    let unknown = || "not known".to_owned();
    let memory = fixed.memory_bytes.map(|bytes| format!("{} GiB", number(bytes as f64 / f64::from(1 << 30))));
    let terms = [
        ("Processor", fixed.cpu.clone().unwrap_or_else(unknown)),
        ("Threads that run at the same time", fixed.cpus.to_string()),
        ("Memory", memory.unwrap_or_else(unknown)),
        ("System", format!("{} {}, {}", fixed.os, fixed.kernel.as_deref().unwrap_or(""), fixed.arch)),
        ("Threads of the measured tasks", fixed.threads.to_string()),
        ("Average load before the run", load.map_or_else(unknown, number)),
        ("Library", format!("{} ({} build)", fixed.version, fixed.build)),
        ("Compiler", fixed.rustc.clone()),
    ];
    let warning = (fixed.build != "release").then(|| {
        let says = "This is a debug build. Its figures mean nothing.";
        element("p", &[("class", "warning")], says)
    });
    let servers = paragraph("The servers ran on the same machine, unless their URL says otherwise.");
    let content = warning.into_iter().collect::<Html>().then(definitions(terms)).then(servers);
    section("machine", "The machine", content)
}
