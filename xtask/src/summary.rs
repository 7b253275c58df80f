//! What the tests ran on, and what was not run: read from what every test program noted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The notes of a whole run, each said once.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    servers: BTreeSet<String>,
    /// With how often.
    not_run: BTreeMap<String, u32>,
    /// Cases that are judged, with the reason: what a test program says of them lies far up in the output.
    failed: BTreeSet<String>,
    /// Cases that were too late on a machine that was busy or stood still, and were not judged for that.
    asked_again: BTreeSet<String>,
}

impl Summary {
    /// Reads the notes; see `record.rs` of the suite.
    pub(crate) fn read(notes: &str) -> Summary {
        let mut summary = Summary::default();
        for (kind, text) in notes.lines().filter_map(|line| line.split_once('\t')) {
            match kind {
                "server" => drop(summary.servers.insert(text.to_owned())),
                "asked again" => drop(summary.asked_again.insert(text.to_owned())),
                "failed" => drop(summary.failed.insert(text.to_owned())),
                _ => *summary.not_run.entry(text.to_owned()).or_default() += 1,
            }
        }
        summary
    }

    /// Adds a server that was missing from the beginning.
    pub(crate) fn missing(&mut self, why: String) {
        self.not_run.entry(why).or_insert(1);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Servers that tests ran on:")?;
        if self.servers.is_empty() {
            writeln!(f, "  none")?;
        }
        for server in &self.servers {
            writeln!(f, "  {server}")?;
        }
        match self.not_run.is_empty() {
            true => write!(f, "Everything was run.")?,
            false => write!(f, "Not run:")?,
        }
        for (text, times) in &self.not_run {
            write!(f, "\n  {text}")?;
            if *times > 1 {
                write!(f, " ({times} times)")?;
            }
        }
        list(f, "Asked again, for they were too late on a busy machine:", &self.asked_again)?;
        list(f, "Failed cases:", &self.failed)
    }
}

/// Nothing at all, if there is nothing under that heading.
fn list(f: &mut fmt::Formatter<'_>, heading: &str, texts: &BTreeSet<String>) -> fmt::Result {
    for (nth, text) in texts.iter().enumerate() {
        if nth == 0 {
            write!(f, "\n{heading}")?;
        }
        write!(f, "\n  {text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn each_note_is_said_once() {
        let mut summary = Summary::read("server\tredis 7\nnot run\ta: b\nserver\tredis 7\nnot run\ta: b\n");
        summary.missing("etcd: install it".to_owned());
        let said = "Servers that tests ran on:\n  redis 7\nNot run:\n  a: b (2 times)\n  etcd: install it";
        assert_eq!(summary.to_string(), said);
        assert_eq!(Summary::read("").to_string(), "Servers that tests ran on:\n  none\nEverything was run.");
        let said = Summary::read("failed\tb: c\nasked again\td: e\n").to_string();
        let end = "Asked again, for they were too late on a busy machine:\n  d: e\nFailed cases:\n  b: c";
        assert!(said.ends_with(&format!("Everything was run.\n{end}")), "{said}");
    }
}
