//! The trial of a planted bug: it is planted, judged, and removed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::judge::{ALL, Finding, Judge};
use super::mutant::{Mutant, Probe, Symptom};
use super::scratch::Scratch;
use crate::workspace::root;

/// The result of a trial.
#[derive(Debug)]
pub(crate) enum Verdict {
    Caught(Catch),
    /// None of these judges noticed.
    Missed(Vec<String>),
    /// It could not be tried, or not be judged.
    Failed(String),
}

/// The judge that noticed, and how it noticed.
#[derive(Debug)]
pub(crate) struct Catch {
    pub(crate) judge: &'static str,
    pub(crate) what: String,
    took: Duration,
}

/// How many of the cases that failed are run again.
const MOST_ASKED_AGAIN: usize = 3;

/// The scratch copy, and which judges can be trusted in it.
pub(crate) struct Trial {
    scratch: Scratch,
    /// The judges and cases that passed while nothing was planted. Without this check, a case that always fails, or
    /// doesn't exist, would look like one that notices.
    passed_unplanted: BTreeSet<Probe>,
    /// The judges and cases that did not pass then, and why. Their answers about a planted bug don't count.
    unfit: BTreeMap<Probe, String>,
}

impl Trial {
    /// Makes the copy, and runs all judges and cases that are expected to notice a bug while nothing is planted.
    pub(crate) fn prepare(mutants: &[Mutant]) -> Result<Trial, String> {
        let mut trial =
            Trial { scratch: Scratch::make()?, passed_unplanted: BTreeSet::new(), unfit: BTreeMap::new() };
        let expected: BTreeSet<Probe> = mutants.iter().map(|mutant| mutant.expected.clone()).collect();
        println!("Running {} judges and cases while nothing is planted.", expected.len());
        let began = Instant::now();
        for judge in ALL.iter().filter(|judge| expected.iter().any(|probe| probe.judge == *judge)) {
            let program = judge.build(&trial.scratch)?;
            for probe in expected.iter().filter(|probe| probe.judge == judge) {
                if let Err(why) = trial.run_unplanted(probe, &program) {
                    println!("{why}");
                    trial.unfit.insert(probe.clone(), why);
                }
            }
        }
        println!(
            "Built and run in {:.0} s; {} of them pass and can judge.\n",
            began.elapsed().as_secs_f64(),
            trial.passed_unplanted.len()
        );
        Ok(trial)
    }

    /// Plants the bug, runs the judges, and removes the bug.
    pub(crate) fn of(&mut self, mutant: &Mutant) -> Verdict {
        if let Some(why) = self.unfit.get(&mutant.expected) {
            return Verdict::Failed(why.clone());
        }
        let began = Instant::now();
        let judged = self.judge(mutant);
        let restored = self.scratch.restore(&mutant.files);
        let (probe, what) = match restored.and(judged) {
            Ok(Judged::Noticed(probe, what)) => (probe, what),
            Ok(Judged::Unnoticed(by)) => return Verdict::Missed(by),
            Err(why) => return Verdict::Failed(why),
        };
        let took = began.elapsed();
        match self.passes_unplanted(&probe) {
            Ok(()) => Verdict::Caught(Catch { judge: probe.judge.name, what, took }),
            Err(why) => Verdict::Failed(why),
        }
    }

    fn judge(&self, mutant: &Mutant) -> Result<Judged, String> {
        self.scratch.plant(&root().join(mutant.path())).map_err(|why| {
            format!("it does not apply any more; make it again against the present code: {why}")
        })?;
        let mut unnoticed = Vec::new();
        for probe in mutant.probes() {
            let program = probe.judge.build(&self.scratch)?;
            match probe.ask(&self.scratch, &program)? {
                Finding::Broken(what) => return Ok(Judged::Noticed(probe, what)),
                // It need not fail again, because these cases passed while nothing was planted.
                Finding::Failed(cases) if mutant.symptom == Symptom::Sometimes && !cases.is_empty() => {
                    let what = in_words(&cases[0], cases.len() - 1);
                    return Ok(Judged::Noticed(probe, what));
                }
                Finding::Failed(cases) => match self.ask_again(probe.judge, &program, cases)? {
                    Again::Fails(probe, what) => return Ok(Judged::Noticed(probe, what)),
                    Again::Passes(once) => unnoticed.push(format!("{once} failed once only")),
                },
                Finding::Hangs if mutant.symptom == Symptom::Hang => {
                    let what = probe.case.iter().map(|case| format!("`{case}` ")).collect::<String>();
                    return Ok(Judged::Noticed(probe, format!("{what}does not end")));
                }
                Finding::Hangs => unnoticed.push(format!("{probe} (timed out)")),
                Finding::Well(cases) => unnoticed.push(format!("{probe} ({cases})")),
            }
        }
        Ok(Judged::Unnoticed(unnoticed))
    }

    /// Runs the cases that failed again, one by one, because a case may also fail on a busy machine.
    fn ask_again(&self, judge: &'static Judge, program: &Path, cases: Vec<String>) -> Result<Again, String> {
        let more = cases.len().saturating_sub(1);
        for case in cases.iter().take(MOST_ASKED_AGAIN) {
            let probe = Probe { judge, case: Some(case.clone()) };
            if let Finding::Failed(_) = probe.ask(&self.scratch, program)? {
                return Ok(Again::Fails(probe, in_words(case, more)));
            }
        }
        Ok(Again::Passes(cases.into_iter().next().unwrap_or_default()))
    }

    /// Checks that a judge which has noticed a bug passes now that the bug is removed.
    fn passes_unplanted(&mut self, probe: &Probe) -> Result<(), String> {
        if self.passed_unplanted.contains(probe) {
            return Ok(());
        }
        let program = probe.judge.build(&self.scratch)?;
        self.run_unplanted(probe, &program)
    }

    fn run_unplanted(&mut self, probe: &Probe, program: &Path) -> Result<(), String> {
        let why = match probe.ask(&self.scratch, program) {
            Ok(Finding::Well(_)) => {
                self.passed_unplanted.insert(probe.clone());
                return Ok(());
            }
            Ok(Finding::Broken(what)) => format!("reports a violation: {what}"),
            Ok(Finding::Failed(_)) => "fails".to_owned(),
            Ok(Finding::Hangs) => "does not end".to_owned(),
            Err(why) => why,
        };
        Err(format!("while nothing is planted, {probe}: {why}"))
    }
}

/// Names a case that failed, and says how many others failed.
fn in_words(case: &str, others: usize) -> String {
    match others {
        0 => format!("`{case}`"),
        _ => format!("`{case}` and {others} more"),
    }
}

/// What cases do that have failed and run again.
enum Again {
    /// This one fails again. The text is about all that failed.
    Fails(Probe, String),
    /// None fails again. The first of them.
    Passes(String),
}

enum Judged {
    Noticed(Probe, String),
    Unnoticed(Vec<String>),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Caught(Catch { judge, what, took }) => {
                write!(f, "caught by {judge}: {what} ({:.0} s)", took.as_secs_f64())
            }
            Verdict::Missed(by) => write!(f, "MISSED by {}", by.join("; ")),
            Verdict::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}
