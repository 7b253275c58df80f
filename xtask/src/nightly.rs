//! `cargo xtask nightly`: runs everything in its full size, and writes the result with its date to a document.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use crate::environment::FULL;
use crate::git::git;
use crate::setup::Consent;
use crate::steps::Steps;
use crate::test::{self, Extent, Size};
use crate::workspace::{cargo, root};

const DOCUMENT: &str = "docs/nightly.md";
/// How many histories of each family are played: a Redlock history takes ten times as long.
const HISTORIES: [(&str, u64); 4] =
    [("lease", 100_000), ("queue", 100_000), ("register", 100_000), ("redlock", 20_000)];
/// Each minute has its own seeds, so that a second run on one day plays other histories. `cargo xtask test` counts days:
/// its seeds are a thousandth of these.
const SEEDS_A_MINUTE: u64 = 1_000_000;

/// `cargo xtask nightly`
pub(crate) fn run(extent: &Extent, consent: Consent) -> ExitCode {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let code = code();
    let mut steps = Steps::default();
    let (tests, sizes) = match extent.has_programs() {
        true => {
            let tests = test::tested(extent, Size::Full, consent, &mut steps);
            (tests.unwrap_or_else(|| "The tests could not be built.".to_owned()), sizes())
        }
        // The output of the last run is still there.
        false => ("None were run again.".to_owned(), BTreeSet::new()),
    };
    let played = HISTORIES.into_iter().filter(|(family, _)| extent.has(&format!("simulation: {family}")));
    let simulated =
        played.map(|(family, histories)| simulate(family, histories, seed(began), &mut steps)).collect();
    let which = which(extent);
    let report = Report { began, code, which, tests, sizes, simulated, outcome: steps.outcome() };
    let text = without_root(&report.to_string(), &root().to_string_lossy());
    let text = match extent {
        Extent::Programs(_) => {
            let before = fs::read_to_string(root().join(DOCUMENT)).unwrap_or_default();
            format!("{before}\n# Run again\n\n{text}")
        }
        Extent::Everything | Extent::Quick => format!("{INTRODUCTION}{text}"),
    };
    steps.step(DOCUMENT, || fs::write(root().join(DOCUMENT), text).map_err(|e| e.to_string()));
    steps.finish()
}

const INTRODUCTION: &str = "\
# The last nightly run

Written by `cargo xtask nightly`: tests in their full size (`LOCK_TEST_FULL=1`), and histories of the simulation on
seeds that no run before has played. What was run again after that stands at the end.

";

/// What a run did, and what came of it.
struct Report {
    began: Duration,
    code: String,
    which: String,
    /// The servers, what was not run, and times.
    tests: String,
    sizes: BTreeSet<String>,
    /// The output of the simulation for each family.
    simulated: Vec<String>,
    outcome: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { code, which, tests, sizes, simulated, outcome, .. } = self;
        let sizes: String = sizes.iter().map(|size| format!("{size}\n")).collect();
        writeln!(
            f,
            "## Tests\n\n- Programs: {which}\n- Date: {}\n- Code: {code}\n- Machine: {}\n- Outcome: {outcome}\n\n\
             ```text\n{tests}\n```\n\n\
             Sizes:\n\n```text\n{sizes}```",
            date(days(self.began)),
            machine(),
        )?;
        match simulated.is_empty() {
            true => Ok(()),
            false => writeln!(f, "\n## Simulation\n\n```text\n{}```", simulated.join("\n")),
        }
    }
}

fn which(extent: &Extent) -> String {
    match extent {
        Extent::Everything => "all".to_owned(),
        Extent::Quick => {
            "those of the core, the program, memory, SQLite and Redis (`--quick`); the others were not run"
                .to_owned()
        }
        Extent::Programs(names) => format!("only those named {}, run again", names.join(", ")),
    }
}

/// Plays the histories of one family and returns what the simulation prints.
fn simulate(family: &str, histories: u64, seed: u64, steps: &mut Steps) -> String {
    let (histories, seed) = (histories.to_string(), seed.to_string());
    let program = ["--quiet", "--release", "-p", "lock-simulation", "--"];
    let asked = ["sim", "--histories", &histories, "--seed", &seed, "--family", family];
    let mut said = format!("$ {}\n", asked.join(" "));
    steps.step(&format!("simulation: {family}"), || {
        let mut cargo = cargo("run", &[&program[..], &asked].concat());
        let output = cargo.stderr(Stdio::inherit()).output().map_err(|e| format!("cargo: {e}"))?;
        said += &String::from_utf8_lossy(&output.stdout);
        println!("{said}");
        if output.status.success() { Ok(()) } else { Err(output.status.to_string()) }
    });
    said
}

fn seed(began: Duration) -> u64 {
    began.as_secs() / 60 * SEEDS_A_MINUTE
}

/// Returns how much each case with a size did, as the cases printed it.
fn sizes() -> BTreeSet<String> {
    let files = fs::read_dir(test::output()).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read(file.path()).ok());
    // A lock's name in the output may have any bytes.
    texts.flat_map(|text| sizes_in(&String::from_utf8_lossy(&text))).collect()
}

/// Finds lines such as `test name ... redis 7: 1000 rounds of 1000 contenders; 1000 with LOCK_TEST_FULL=1`; the part
/// before ` ... ` may be missing.
fn sizes_in(text: &str) -> Vec<String> {
    let mark = format!(" with {FULL}=1");
    let size = |line: &str| {
        let (said, _) = line.split_once(&mark)?.0.rsplit_once(';')?;
        Some(said.rsplit_once(" ... ").map_or(said, |(_, said)| said).trim().to_owned())
    };
    text.lines().filter_map(size).collect()
}

/// Removes the path of the checkout, which readers of the document don't need.
fn without_root(text: &str, root: &str) -> String {
    text.replace(&format!("{root}/"), "")
}

/// Returns the commit, and whether the work tree has changes.
fn code() -> String {
    let commit = git(root(), &["rev-parse", "--short", "HEAD"]);
    let changed = git(root(), &["status", "--porcelain", "--untracked-files=no"]);
    match (commit, changed) {
        (Ok(commit), Ok(changed)) if changed.trim().is_empty() => commit.trim().to_owned(),
        (Ok(commit), _) => format!("{}, with changes", commit.trim()),
        (Err(why), _) => format!("unknown: {why}"),
    }
}

fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = Command::new("uname").arg("-srm").output().map(|said| said.stdout).unwrap_or_default();
    format!("{processors} processors, {}", String::from_utf8_lossy(&kernel).trim())
}

fn days(since_1970: Duration) -> u64 {
    since_1970.as_secs() / (24 * 3600)
}

/// Returns the Gregorian date of a day since 1970 (H. Hinnant, `civil_from_days`).
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let dates =
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_780, "2026-11-23"), (20_819, "2027-01-01")];
        for (day, said) in dates {
            assert_eq!(date(day), said);
        }
    }

    #[test]
    fn sizes_are_found_behind_the_names_of_their_cases() {
        let text = "test a::b    ... redis 7: 20 rounds; 20 with LOCK_TEST_FULL=1\nok\nredis 7: 8 names; 8 with LOCK_TEST_FULL=1";
        assert_eq!(sizes_in(text), ["redis 7: 20 rounds", "redis 7: 8 names"]);
    }

    #[test]
    fn files_of_the_checkout_are_named_from_its_root() {
        let said = without_root("from /home/user/lock/target/servers/x, /usr/bin/y", "/home/user/lock");
        assert_eq!(said, "from target/servers/x, /usr/bin/y");
    }

    #[test]
    fn the_document_says_how_it_went() {
        let report = Report {
            began: Duration::from_secs(20_780 * 24 * 3600),
            code: "a986d5d".to_owned(),
            which: which(&Extent::Quick),
            tests: "Everything was run.".to_owned(),
            sizes: BTreeSet::from(["redis 7: 1000 rounds of 1000 contenders".to_owned()]),
            simulated: vec!["$ sim\n".to_owned()],
            outcome: "Failed: tests: two at a time.".to_owned(),
        };
        let said = report.to_string();
        for part in [
            "SQLite and Redis",
            "2026-11-23",
            "a986d5d",
            "Failed: tests",
            "Everything was run.",
            "1000 rounds",
            "$ sim\n",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let again = Report {
            which: which(&Extent::Programs(vec!["lock-zk: zk".to_owned()])),
            simulated: vec![],
            ..report
        };
        assert!(
            again.to_string().contains("lock-zk: zk, run again") && !again.to_string().contains("Simulation")
        );
    }
}
