//! `cargo xtask mutants`: plants each bug of `conformance/mutants` in a scratch copy, and runs the simulation and the
//! suite to see whether they notice. If no judge notices a planted bug, a case is missing.

mod bounded;
mod changes;
mod judge;
mod mutant;
mod output;
mod scratch;
mod table;
mod trial;

use std::process::ExitCode;

use changes::Changes;
use mutant::Mutant;
use trial::{Trial, Verdict};

pub(crate) use table::check;

/// Which planted bugs are to be tried.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    /// Those whose verdict may differ because of a change since this revision; since the last merge, if none is named.
    Changed(Option<String>),
    /// Those whose names contain one of these.
    Named(Vec<String>),
}

/// `cargo xtask mutants`
pub(crate) fn run(choice: &Choice) -> ExitCode {
    match tried(choice) {
        Ok(tally) => {
            println!("\n{tally}");
            if tally.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn tried(choice: &Choice) -> Result<Tally, String> {
    let mutants = chosen(choice, mutant::all()?)?;
    let mut outcomes = Vec::new();
    if !mutants.is_empty() {
        let mut trial = Trial::prepare(&mutants)?;
        for mutant in mutants {
            let verdict = trial.of(&mutant);
            println!("{:<50} {verdict}", mutant.name);
            outcomes.push((mutant, verdict));
        }
        println!("\n{}", table::of(&outcomes));
        println!("The table is kept in {}.", table::keep(&outcomes)?.display());
    }
    Ok(Tally::of(&outcomes))
}

fn chosen(choice: &Choice, all: Vec<Mutant>) -> Result<Vec<Mutant>, String> {
    let known = all.len();
    let chosen: Vec<Mutant> = match choice {
        Choice::All => all,
        Choice::Changed(since) => match Changes::since(since.as_deref())? {
            None => {
                println!("There is no earlier commit to compare with: every planted bug is tried.");
                all
            }
            Some(changes) => {
                println!("Compared with {}.", changes.base);
                all.into_iter().filter(|mutant| changes.concern(mutant)).collect()
            }
        },
        Choice::Named(names) => {
            let unknown = names.iter().find(|name| !all.iter().any(|mutant| mutant.name.contains(*name)));
            if let Some(unknown) = unknown {
                return Err(format!("no file of conformance/mutants is called {unknown:?}"));
            }
            all.into_iter().filter(|mutant| names.iter().any(|name| mutant.name.contains(name))).collect()
        }
    };
    println!("{} of {known} planted bugs are tried.", chosen.len());
    Ok(chosen)
}

/// The numbers of verdicts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    caught: usize,
    missed: usize,
    /// Planted bugs that could not be tried.
    failed: Vec<String>,
}

impl Tally {
    fn of(outcomes: &[(Mutant, Verdict)]) -> Tally {
        let mut tally = Tally::default();
        for (mutant, verdict) in outcomes {
            match verdict {
                Verdict::Caught(_) => tally.caught += 1,
                Verdict::Missed(_) => tally.missed += 1,
                Verdict::Failed(_) => tally.failed.push(mutant.name.clone()),
            }
        }
        tally
    }

    fn is_well(&self) -> bool {
        self.missed == 0 && self.failed.is_empty()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} caught, {} missed", self.caught, self.missed)?;
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => write!(f, ", {} could not be tried: {}", failed.len(), failed.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_caught_all_is_well() {
        let tally = |missed, failed: &[&str]| Tally {
            caught: 3,
            missed,
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(tally(0, &[]).is_well());
        assert!(!tally(1, &[]).is_well());
        assert!(!tally(0, &["lock-redis/x"]).is_well());
        assert_eq!(tally(0, &[]).to_string(), "3 caught, 0 missed");
        assert_eq!(
            tally(1, &["lock-redis/x"]).to_string(),
            "3 caught, 1 missed, 1 could not be tried: lock-redis/x"
        );
    }
}
