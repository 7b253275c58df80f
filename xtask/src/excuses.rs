//! Counts the cases whose lateness the machine excused, over the runs of this checkout, beside its target folder.
//!
//! If a case needs an excuse in two runs in a row, or more than a few cases do in one run, the machine is not the
//! cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many cases of one run may be excused.
pub(crate) const MOST: usize = 3;

/// The cases that were excused, in all runs and in the run before this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Excuses {
    runs: u64,
    /// How often each case was excused, and in which run the last time.
    cases: BTreeMap<String, (u64, u64)>,
}

impl Excuses {
    /// Reads what earlier runs stored; before the first run there is nothing.
    pub(crate) fn kept() -> Excuses {
        Excuses::parse(&fs::read_to_string(file()).unwrap_or_default())
    }

    /// Stores the counts for the next run.
    pub(crate) fn keep(&self) -> io::Result<()> {
        fs::write(file(), self.to_text())
    }

    /// Counts a run in which these cases were excused. The error says why that is a failure.
    pub(crate) fn count(&mut self, excused: &BTreeSet<String>) -> Result<(), String> {
        self.runs += 1;
        let mut again = Vec::new();
        for case in excused {
            let (times, last) = self.cases.entry(case.clone()).or_default();
            if *last + 1 == self.runs && *times > 0 {
                again.push(case.as_str());
            }
            (*times, *last) = (*times + 1, self.runs);
        }
        if !again.is_empty() {
            return Err(format!("too late in two runs in a row: {}", again.join(", ")));
        }
        match excused.len() {
            0..=MOST => Ok(()),
            many => Err(format!("{many} cases were too late; the machine excuses {MOST} of a run at most")),
        }
    }

    /// Returns one line that says how often each case was excused.
    pub(crate) fn said(&self) -> String {
        let cases: Vec<_> = self.cases.iter().map(|(case, (times, _))| format!("{case} {times}")).collect();
        match cases.is_empty() {
            true => format!("Excused in {} runs of this checkout: none.", self.runs),
            false => format!("Excused in {} runs of this checkout: {}.", self.runs, cases.join(", ")),
        }
    }

    /// Reads the number of runs, then a line `times<tab>last run<tab>case` for each case.
    fn parse(text: &str) -> Excuses {
        let mut lines = text.lines();
        let runs = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let case = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let (times, last) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some((fields.next()?.to_owned(), (times, last)))
        };
        Excuses { runs, cases: lines.filter_map(case).collect() }
    }

    fn to_text(&self) -> String {
        let case = |(case, (times, last)): (&String, &(u64, u64))| format!("{times}\t{last}\t{case}\n");
        format!("{}\n{}", self.runs, self.cases.iter().map(case).collect::<String>())
    }
}

/// Returns a path that `cargo clean` does not delete.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(".test-excuses")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_few_are_excused_and_no_more() {
        let mut excuses = Excuses::default();
        assert_eq!(excuses.count(&cases(&["a", "b", "c"])), Ok(()));
        let refused = excuses.count(&cases(&["d", "e", "f", "g"])).unwrap_err();
        assert!(refused.starts_with("4 cases were too late"), "{refused}");
    }

    #[test]
    fn no_case_is_excused_in_two_runs_in_a_row() {
        let mut excuses = Excuses::default();
        assert_eq!(excuses.count(&cases(&["a"])), Ok(()));
        assert_eq!(excuses.count(&cases(&[])), Ok(()));
        assert_eq!(excuses.count(&cases(&["a", "b"])), Ok(()));
        assert_eq!(excuses.count(&cases(&["b"])).unwrap_err(), "too late in two runs in a row: b");
        assert_eq!(excuses.said(), "Excused in 4 runs of this checkout: a 2, b 2.");
    }

    #[test]
    fn what_is_kept_is_read() {
        let mut excuses = Excuses::default();
        assert_eq!(Excuses::parse(""), excuses);
        excuses.count(&cases(&["redis 7: lease::a", "zk: b"])).unwrap();
        assert_eq!(Excuses::parse(&excuses.to_text()), excuses);
    }
}
