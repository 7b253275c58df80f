//! Summarises which servers the tests ran on and what was not run, from the notes of all test programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::setup::Missing;

/// So many cases of one run may be late because the machine stood still. If more are, the machine is not the cause.
const MOST_EXCUSED: usize = 3;

/// The notes of a whole run, without repetitions.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    servers: BTreeSet<String>,
    /// Servers, clients and tools that were missing, with the reasons.
    absent: BTreeMap<String, BTreeSet<String>>,
    /// By reason, and by place.
    not_run: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Cases that failed, with the reason: the output of their test program is far above.
    failed: BTreeSet<String>,
    /// Cases that were too late, and then in time in two of three runs by themselves, with the reason.
    excused: BTreeSet<String>,
    /// Cases that had shown nothing, and were repeated.
    void: BTreeSet<String>,
}

impl Summary {
    /// Reads the notes (see `record.rs` of the suite).
    pub(crate) fn read(notes: &str) -> Summary {
        let mut summary = Summary::default();
        let notes = || notes.lines().filter_map(|line| line.split_once('\t'));
        for (_, text) in notes().filter(|(kind, _)| *kind == "absent") {
            let (name, why) = text.split_once(": ").unwrap_or((text, ""));
            summary.absent.entry(name.to_owned()).or_default().insert(why.to_owned());
        }
        for (kind, text) in notes() {
            match kind {
                "absent" => false,
                "server" => summary.servers.insert(text.to_owned()),
                "excused" => summary.excused.insert(text.to_owned()),
                "void" => summary.void.insert(text.to_owned()),
                "failed" => summary.failed.insert(text.to_owned()),
                // What is absent has a line of its own.
                _ if summary.absent.values().flatten().any(|why| text.ends_with(why.as_str())) => false,
                _ => summary.not_run(text),
            };
        }
        summary
    }

    /// Reads a note of something that was not run: `place: case: reason`, or `place: reason`.
    fn not_run(&mut self, text: &str) -> bool {
        let (place, rest) = text.split_once(": ").unwrap_or(("", text));
        let (case, reason) = match rest.split_once(": ") {
            Some((case, reason)) if !case.contains(' ') => (Some(case.to_owned()), reason),
            _ => (None, rest),
        };
        let cases = self.not_run.entry(reason.to_owned()).or_default().entry(place.to_owned()).or_default();
        case.is_some_and(|case| cases.insert(case))
    }

    /// Fails if the machine excuses too much: more than a few cases of a run, or a case in two runs in a row.
    pub(crate) fn judge_excuses(&self, last: &Summary) -> Result<(), String> {
        let (excused, last) = (self.excused_cases(), last.excused_cases());
        let again: Vec<&str> = excused.intersection(&last).map(String::as_str).collect();
        if !again.is_empty() {
            return Err(format!("too late in two runs in a row: {}", again.join(", ")));
        }
        match excused.len() {
            0..=MOST_EXCUSED => Ok(()),
            many => Err(format!(
                "{many} cases were too late; the machine excuses {MOST_EXCUSED} of a run at most"
            )),
        }
    }

    /// Returns the cases that were excused: `server: topic::case`.
    fn excused_cases(&self) -> BTreeSet<String> {
        let case = |text: &String| text.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ");
        self.excused.iter().map(case).collect()
    }

    /// Adds something that was missing from the beginning.
    pub(crate) fn missing(&mut self, missing: &Missing) {
        self.absent.entry(missing.name.to_owned()).or_default().insert(missing.why.clone());
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Servers that tests ran on:")?;
        if self.servers.is_empty() {
            write!(f, "\n  none")?;
        }
        self.servers.iter().try_for_each(|server| write!(f, "\n  {server}"))?;
        match self.not_run.is_empty() && self.absent.is_empty() {
            true => write!(f, "\nEverything was run.")?,
            false => write!(f, "\nNot run:")?,
        }
        for (name, reasons) in &self.absent {
            let says_more = |why: &String| reasons.iter().any(|other| other != why && other.starts_with(why));
            let reasons: Vec<&str> =
                reasons.iter().filter(|why| !says_more(why)).map(String::as_str).collect();
            write!(f, "\n  {name}: {}", reasons.join("; "))?;
        }
        for (reason, places) in &self.not_run {
            let places: Vec<String> = places.iter().map(|(place, cases)| listed(place, cases)).collect();
            write!(f, "\n  {reason}: {}", places.join("; "))?;
        }
        let excused = "Excused: they were too late, and then in time in two of three runs by themselves:";
        let void = "Repeated, because the fault that they are about had not happened:";
        for (heading, texts) in
            [(excused, &self.excused), (void, &self.void), ("Failed cases:", &self.failed)]
        {
            if !texts.is_empty() {
                write!(
                    f,
                    "\n{heading}\n  {}",
                    texts.iter().map(String::as_str).collect::<Vec<_>>().join("\n  ")
                )?;
            }
        }
        Ok(())
    }
}

/// Lists a few cases by their names, many cases by their number. Each has its line in the notes.
fn listed(place: &str, cases: &BTreeSet<String>) -> String {
    match cases.len() {
        0 => place.to_owned(),
        1..=3 => format!("{place} ({})", cases.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        many => format!("{place} ({many} cases)"),
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::setup::Missing;

    #[test]
    fn each_note_is_said_once() {
        let mut summary =
            Summary::read("server\tredis 7\nnot run\ta: x y\nserver\tredis 7\nnot run\ta: x y\n");
        summary.missing(&Missing { name: "etcd", why: "install it".to_owned() });
        let said = "Servers that tests ran on:\n  redis 7\nNot run:\n  etcd: install it\n  x y: a";
        assert_eq!(summary.to_string(), said);
        assert_eq!(Summary::read("").to_string(), "Servers that tests ran on:\n  none\nEverything was run.");
        let summary = Summary::read("failed\tb: c\nvoid\td: e\nexcused\tredis 7: f::g: too late: h\n");
        assert_eq!(summary.excused.len(), 1);
        let said = summary.to_string();
        let end = "Excused: they were too late, and then in time in two of three runs by themselves:\n  \
                   redis 7: f::g: too late: h\n\
                   Repeated, because the fault that they are about had not happened:\n  d: e\nFailed cases:\n  b: c";
        assert!(said.ends_with(&format!("Everything was run.\n{end}")), "{said}");
    }

    #[test]
    fn a_case_is_excused_once_and_few_cases_are() {
        let excused = |cases: &[&str]| -> Summary {
            Summary::read(&cases.iter().map(|case| format!("excused\tx: {case}: late\n")).collect::<String>())
        };
        let none = Summary::default();
        assert_eq!(excused(&["a", "b", "c"]).judge_excuses(&excused(&["d"])), Ok(()));
        assert!(excused(&["a", "b", "c", "d"]).judge_excuses(&none).unwrap_err().starts_with("4 cases"));
        let again = excused(&["a", "b"]).judge_excuses(&excused(&["b"])).unwrap_err();
        assert_eq!(again, "too late in two runs in a row: x: b");
    }

    #[test]
    fn cases_skipped_for_one_reason_share_a_line() {
        let cases = |place: &str, names: &[&str]| -> String {
            names.iter().map(|name| format!("not run\t{place}: m::{name}: no: way at all\n")).collect()
        };
        let notes = [cases("redis 7", &["a", "b", "c", "d"]), cases("memory, lease family", &["a"])].concat();
        let said = Summary::read(&notes).to_string();
        assert!(
            said.ends_with("\n  no: way at all: memory, lease family (m::a); redis 7 (4 cases)"),
            "{said}"
        );
    }

    #[test]
    fn a_missing_thing_has_one_line_for_all_users() {
        let notes = "not run\tconformance of mongodb: no mongod\nabsent\tmongodb: no mongod\nabsent\tmongodb: no mong\n\
                     not run\tmongodb: a::b: no mongod\nnot run\tredis: a::b: no way\nabsent\tkazoo: no python3\n";
        let mut summary = Summary::read(notes);
        summary.missing(&Missing { name: "mongodb", why: "that takes pip".to_owned() });
        let said = summary.to_string();
        let table = said.split_once("Not run:\n").map_or("", |(_, table)| table);
        let lines = ["  kazoo: no python3", "  mongodb: no mongod; that takes pip", "  no way: redis (a::b)"];
        assert_eq!(table, lines.join("\n"));
    }
}
