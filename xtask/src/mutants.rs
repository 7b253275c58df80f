//! `cargo xtask mutants`: plants each bug of `conformance/mutants` in a copy of the work tree, and asks the case that has
//! to notice. If it does not, it tests less than its name says.

mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use crate::documents::{files_below, read};
use crate::git::git;
use crate::workspace::root;
use scratch::{Answer, Scratch};

const FOLDER: &str = "conformance/mutants";

/// The choice of planted bugs to try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    /// Patches that a change since this revision concerns; since the branch left main, or since the last
    /// commit, if none is named.
    Changed(Option<String>),
    /// Patches whose names contain one of these.
    Named(Vec<String>),
}

/// A planted bug.
struct Bug {
    /// The path of its patch, from the repository's root.
    path: String,
    judge: Judge,
    /// True if the case starts the program `lock`.
    starts_lock: bool,
    /// The files that it changes, from the repository's root.
    files: Vec<String>,
}

/// The case that has to notice a bug.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Judge {
    /// Cargo's arguments that select the program: `-p lock-redis --test redis`.
    program: String,
    /// The name of the case; what the simulation is to play.
    case: String,
}

impl Judge {
    fn is_simulation(&self) -> bool {
        self.program == "-p lock-simulation"
    }

    /// Returns the case's own name, without its path.
    fn name(&self) -> &str {
        self.case.rsplit("::").next().unwrap_or(&self.case)
    }
}

/// `cargo xtask mutants`
pub(crate) fn run(choice: &Choice) -> ExitCode {
    match tried(choice) {
        Ok(uncaught) if uncaught.is_empty() => return ExitCode::SUCCESS,
        Ok(uncaught) => println!("\nNot caught: {}", uncaught.join(", ")),
        Err(why) => eprintln!("xtask: {why}"),
    }
    ExitCode::FAILURE
}

/// A step of `cargo xtask ci`: checks that every planted bug applies, and that its case exists.
pub(crate) fn check() -> Result<(), String> {
    let sources = sources()?;
    let mut wrong = Vec::new();
    for bug in all()? {
        if let Err(why) = git(root(), &["apply", "--check", &bug.path]) {
            wrong.push(format!("{} does not apply any more; make it again: {why}", bug.path));
        }
        if !bug.judge.is_simulation() && !sources.iter().any(|(_, text)| text.contains(bug.judge.name())) {
            wrong.push(format!("{} expects {}, and there is no such case", bug.path, bug.judge.case));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Tries the bugs, and returns those that their cases did not catch.
fn tried(choice: &Choice) -> Result<Vec<String>, String> {
    let all = all()?;
    let known = all.len();
    let bugs = chosen(choice, all)?;
    println!("{} of {known} planted bugs are tried.", bugs.len());
    if bugs.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::make()?;
    // A case that fails without the bug, or that does not exist, would look like one that notices.
    let mut unplanted = BTreeMap::new();
    for bug in &bugs {
        unplanted.entry(bug.judge.clone()).or_insert_with(|| scratch.ask(&bug.judge, bug.starts_lock));
    }
    let mut uncaught = Vec::new();
    for bug in bugs {
        let verdict = match &unplanted[&bug.judge] {
            Ok(Answer::Passed) => judged(&scratch, &bug),
            Ok(Answer::Failed) => Err("it fails without the bug".to_owned()),
            Err(why) => Err(why.clone()),
        };
        let said = match verdict {
            Ok(Answer::Failed) => format!("caught by {}", bug.judge.case),
            Ok(Answer::Passed) => format!("MISSED by {}", bug.judge.case),
            Err(ref why) => format!("NOT TRIED: {}: {why}", bug.judge.case),
        };
        println!("{:<60} {said}", bug.path);
        if verdict != Ok(Answer::Failed) {
            uncaught.push(bug.path);
        }
    }
    Ok(uncaught)
}

/// Plants the bug, asks its case, and takes the bug out again. The case has to fail twice: on a busy machine it may fail
/// once.
fn judged(scratch: &Scratch, bug: &Bug) -> Result<Answer, String> {
    let ask = || scratch.ask(&bug.judge, bug.starts_lock);
    scratch.plant(&bug.path)?;
    let answer = ask().and_then(|first| if first == Answer::Failed { ask() } else { Ok(first) });
    scratch.take_out(&bug.path)?;
    answer
}

fn chosen(choice: &Choice, all: Vec<Bug>) -> Result<Vec<Bug>, String> {
    Ok(match choice {
        Choice::All => all,
        Choice::Named(names) => {
            if let Some(unknown) = names.iter().find(|name| !all.iter().any(|bug| bug.path.contains(*name))) {
                return Err(format!("no file of {FOLDER} is called {unknown:?}"));
            }
            all.into_iter().filter(|bug| names.iter().any(|name| bug.path.contains(name))).collect()
        }
        Choice::Changed(since) => {
            let changed = changed(since.as_deref())?;
            let cases = sources()?.into_iter().filter(|(path, _)| changed.contains(path));
            let cases: Vec<String> = cases.map(|(_, text)| text).collect();
            let concerns = |bug: &Bug| {
                changed.contains(&bug.path)
                    || bug.files.iter().any(|file| changed.contains(file))
                    || cases.iter().any(|text| text.contains(bug.judge.name()))
            };
            all.into_iter().filter(concerns).collect()
        }
    })
}

/// Returns the files that have changed since the work tree left a revision, main, or the commit before.
fn changed(since: Option<&str>) -> Result<BTreeSet<String>, String> {
    let head = git(root(), &["rev-parse", "HEAD"])?;
    let left =
        |revision: &&str| git(root(), &["merge-base", revision, "HEAD"]).ok().filter(|base| *base != head);
    let base = match since {
        Some(revision) => git(root(), &["merge-base", revision, "HEAD"])?,
        None => match ["origin/main", "main"].iter().find_map(left) {
            Some(base) => base,
            None => git(root(), &["rev-parse", "HEAD^"])?,
        },
    };
    let files = git(root(), &["diff", "--name-only", "--no-renames", base.trim()])?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Reads the sources in which cases are written, by their paths from the root.
fn sources() -> Result<Vec<(String, String)>, String> {
    let listed = git(root(), &["ls-files", "lock-*.rs", "conformance/*.rs"])?;
    listed.lines().map(|path| Ok((path.to_owned(), read(&root().join(path))?))).collect()
}

fn all() -> Result<Vec<Bug>, String> {
    let mut paths = files_below(&root().join(FOLDER), "patch")?;
    paths.sort();
    let path =
        |path: &std::path::PathBuf| path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned();
    paths.iter().map(|file| parse(path(file), &read(file)?)).collect()
}

fn parse(path: String, text: &str) -> Result<Bug, String> {
    let head = text.lines().take_while(|line| !line.starts_with("--- "));
    let fields: BTreeMap<&str, &str> = head.filter_map(|line| line.split_once(':')).collect();
    for key in ["Planted", "Breaks", "Judge"] {
        fields.get(key).ok_or_else(|| format!("{path}: its head has no line \"{key}: …\""))?;
    }
    let judge = fields["Judge"].trim().split_once(" -- ");
    let (program, case) = judge.ok_or_else(|| format!("{path}: its judge is not `-p PACKAGE … -- CASE`"))?;
    let judge = Judge { program: program.to_owned(), case: case.to_owned() };
    let files = text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect();
    Ok(Bug { path, judge, starts_lock: fields.contains_key("Starts"), files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let text = "Planted: a bug\nBreaks:  B9\nJudge:   -p a --test run -- --no-wait: gives 75\n\
            --- a/a/src/x.rs\n+++ b/a/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        let bug = parse("x.patch".to_owned(), text).unwrap();
        assert_eq!(
            (bug.judge.program.as_str(), bug.judge.case.as_str()),
            ("-p a --test run", "--no-wait: gives 75")
        );
        assert_eq!((bug.files, bug.starts_lock), (vec!["a/src/x.rs".to_owned()], false));
        let why = parse("x.patch".to_owned(), &text.replace("Breaks", "Brakes")).err().unwrap();
        assert!(why.contains("\"Breaks: …\""), "{why}");
        assert!(parse("x.patch".to_owned(), &text.replace(" -- ", " ")).is_err());
    }

    #[test]
    fn every_bug_applies_and_its_case_exists() {
        check().expect("the planted bugs");
    }
}
