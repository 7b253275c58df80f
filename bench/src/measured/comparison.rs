//! What two runs have in common: the library's rows before and after.

use super::file::Measured;
use crate::quick::lines::Server;
use crate::report::Row;
use crate::targets::Bound;

/// Two runs.
pub(super) struct Comparison<'a> {
    pub(super) runs: Both<&'a Measured>,
    /// In the order of the later run.
    pub(super) backends: Vec<Backend<'a>>,
}

/// One backend in both runs.
pub(super) struct Backend<'a> {
    pub(super) name: &'a str,
    pub(super) server: Both<&'a Server>,
    pub(super) rows: Vec<Both<&'a Row>>,
}

/// Something in both runs, or in one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Both<T> {
    pub(super) before: Option<T>,
    pub(super) after: Option<T>,
}

/// A bound on a figure of a row, and whether it is reached.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) figure: String,
    pub(super) bound: Bound,
    pub(super) reached: Both<bool>,
}

impl<T: Copy> Both<T> {
    pub(super) fn map<U>(self, of: impl Fn(T) -> Option<U>) -> Both<U> {
        Both { before: self.before.and_then(&of), after: self.after.and_then(of) }
    }

    /// Returns what is in the later run, or in the earlier one if it is not.
    pub(super) fn latest(self) -> Option<T> {
        self.after.or(self.before)
    }
}

impl<'a> Comparison<'a> {
    pub(super) fn of(before: &'a Measured, after: &'a Measured) -> Comparison<'a> {
        let runs = Both { before: Some(before), after: Some(after) };
        let names = |run: &'a Measured| run.servers.iter().map(|server| &*server.backend);
        let backends = union(names(after), names(before)).into_iter();
        Comparison { runs, backends: backends.map(|name| Backend::of(name, runs)).collect() }
    }
}

impl<'a> Backend<'a> {
    fn of(name: &'a str, runs: Both<&'a Measured>) -> Backend<'a> {
        let server = runs.map(|run| run.servers.iter().find(|server| server.backend == name));
        let rows = |run: Option<&'a Measured>| run.into_iter().flat_map(|run| of_the_library(run, name));
        let keys = union(rows(runs.after).map(key), rows(runs.before).map(key));
        let row = |wanted: (String, &'a str)| {
            runs.map(|run| of_the_library(run, name).find(|row| key(row) == wanted))
        };
        Backend { name, server, rows: keys.into_iter().map(row).collect() }
    }
}

/// Returns the library's own rows on this backend. Those of other subjects are what it is compared with.
fn of_the_library<'a>(run: &'a Measured, backend: &'a str) -> impl Iterator<Item = &'a Row> {
    run.rows.iter().filter(move |row| row.backend == backend && is_of_the_library(row))
}

/// Whether a row is the library's: as it is, or without one of several servers.
fn is_of_the_library(row: &Row) -> bool {
    matches!(&*row.subject, "ours" | "one-dead" | "one-silent")
}

fn key(row: &Row) -> (String, &str) {
    (row.case(), &row.subject)
}

/// Returns what is in one of both, in the order of the first.
fn union<T: PartialEq>(first: impl Iterator<Item = T>, second: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for one in first.chain(second) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Returns the bounds on a row, as the later run has them. A verdict of the earlier run on another bound is left out.
pub(super) fn judged(rows: Both<&Row>) -> Vec<Judged> {
    let latest = rows.latest().map_or(&[][..], |row| &row.to_reach);
    let judged = |verdict: &crate::targets::Verdict| {
        let same = |row: &Row| {
            let mut all = row.to_reach.iter();
            let same = all.find(|other| other.figure == verdict.figure && other.bound == verdict.bound)?;
            Some(same.reached)
        };
        Judged { figure: verdict.figure.clone(), bound: verdict.bound, reached: rows.map(same) }
    };
    latest.iter().map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::text;
    use super::*;
    use crate::quick::lines::Line;
    use crate::targets::Verdict;

    fn run(backends: &[(&str, &[&str])]) -> Measured {
        let mut lines = Vec::new();
        for (backend, workloads) in backends {
            let (backend, address) = ((*backend).to_owned(), String::new());
            lines.push(Line::Server {
                server: Server { backend: backend.clone(), product: None, address, durable: None },
            });
            for workload in *workloads {
                for subject in ["ours", "floor"] {
                    let (workload, subject) = ((*workload).to_owned(), subject.to_owned());
                    let backend = backend.clone();
                    lines.push(Line::Row(Box::new(Row { backend, workload, subject, ..Row::default() })));
                }
            }
        }
        Measured::parse(&text(&lines)).unwrap()
    }

    #[test]
    fn rows_of_the_library_are_found_in_both_runs() {
        let before = run(&[("redis", &["uncontended", "delay"]), ("etcd", &["uncontended"])]);
        let after = run(&[("memory", &["held"]), ("redis", &["held", "uncontended"])]);
        let comparison = Comparison::of(&before, &after);
        let names: Vec<&str> = comparison.backends.iter().map(|backend| backend.name).collect();
        assert_eq!(names, ["memory", "redis", "etcd"]);
        let redis = comparison.backends[1].rows.iter();
        let redis: Vec<(bool, &str, bool)> = redis
            .map(|row| (row.before.is_some(), &*row.latest().unwrap().workload, row.after.is_some()))
            .collect();
        assert_eq!(redis, [(false, "held", true), (true, "uncontended", true), (true, "delay", false)]);
    }

    #[test]
    fn a_verdict_on_another_bound_is_no_verdict_on_this_one() {
        let row = |bound, reached| {
            let verdict = Verdict { figure: "ratio".to_owned(), bound, reached };
            Row { to_reach: vec![verdict], ..Row::default() }
        };
        let reached =
            |before: &Row, after: &Row| judged(Both { before: Some(before), after: Some(after) })[0].reached;
        let after = row(Bound::AtLeast(0.95), true);
        let before = row(Bound::AtLeast(0.95), false);
        assert_eq!(reached(&before, &after), Both { before: Some(false), after: Some(true) });
        let other = row(Bound::AtLeast(0.85), true);
        assert_eq!(reached(&other, &after), Both { before: None, after: Some(true) });
    }
}
