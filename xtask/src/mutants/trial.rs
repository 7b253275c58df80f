//! The trial of a planted bug: planted, judged, and taken out again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::judge::{ALL, Finding, Judge};
use super::mutant::{Mutant, Probe, Symptom};
use super::scratch::Scratch;
use crate::workspace::root;

/// What came of a trial.
#[derive(Debug)]
pub(crate) enum Verdict {
    Caught(Catch),
    /// By all of these judges.
    Missed(Vec<String>),
    /// It could not be tried, or not be judged.
    Failed(String),
}

/// Who noticed, and by what.
#[derive(Debug)]
pub(crate) struct Catch {
    pub(crate) judge: &'static str,
    pub(crate) what: String,
    took: Duration,
}

/// How many of the cases that failed are asked again.
const MOST_ASKED_AGAIN: usize = 3;

/// Where trials are held.
pub(crate) struct Trial {
    scratch: Scratch,
    /// What was asked of the copy with nothing planted, and answered well. Else a case that fails anyhow, or doesn't
    /// exist, would pass for one that notices.
    sober: BTreeSet<Probe>,
    /// Those that were not, and why: what they say of a planted bug counts for nothing.
    unfit: BTreeMap<Probe, String>,
}

impl Trial {
    /// Makes the copy, and asks everybody who is expected to notice something while there is nothing to notice.
    pub(crate) fn prepare(mutants: &[Mutant]) -> Result<Trial, String> {
        let mut trial = Trial { scratch: Scratch::make()?, sober: BTreeSet::new(), unfit: BTreeMap::new() };
        let expected: BTreeSet<Probe> = mutants.iter().map(|mutant| mutant.expected.clone()).collect();
        println!("Asking {} judges and cases while nothing is planted.", expected.len());
        let began = Instant::now();
        for judge in ALL.iter().filter(|judge| expected.iter().any(|probe| probe.judge == *judge)) {
            let program = judge.build(&trial.scratch)?;
            for probe in expected.iter().filter(|probe| probe.judge == judge) {
                if let Err(why) = trial.check_sober(probe, &program) {
                    println!("{why}");
                    trial.unfit.insert(probe.clone(), why);
                }
            }
        }
        println!(
            "Built and asked in {:.0} s; {} are fit to judge.\n",
            began.elapsed().as_secs_f64(),
            trial.sober.len()
        );
        Ok(trial)
    }

    /// Plants the bug, has it judged, and takes it out.
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
        match self.is_sober(&probe) {
            Ok(()) => Verdict::Caught(Catch { judge: probe.judge.name, what, took }),
            Err(why) => Verdict::Failed(why),
        }
    }

    fn judge(&self, mutant: &Mutant) -> Result<Judged, String> {
        self.scratch.plant(&root().join(mutant.path())).map_err(|why| {
            format!("it does not apply any more; make it anew against the code of today: {why}")
        })?;
        let mut unnoticed = Vec::new();
        for probe in mutant.probes() {
            let program = probe.judge.build(&self.scratch)?;
            match probe.ask(&self.scratch, &program)? {
                Finding::Broken(what) => return Ok(Judged::Noticed(probe, what)),
                // It need not fail again: that these cases pass when nothing is planted was seen.
                Finding::Failed(cases) if mutant.symptom == Symptom::Sometimes && !cases.is_empty() => {
                    let what = in_words(&cases[0], cases.len() - 1);
                    return Ok(Judged::Noticed(probe, what));
                }
                Finding::Failed(cases) => match self.failing(probe.judge, &program, cases)? {
                    Ok((probe, what)) => return Ok(Judged::Noticed(probe, what)),
                    Err(once) => unnoticed.push(format!("{once} failed once only")),
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

    /// The first of these cases that fails once more, by itself, and all that failed in words: a busy machine makes a case
    /// fail too. `Err` is the first one, if none does.
    fn failing(
        &self,
        judge: &'static Judge,
        program: &Path,
        cases: Vec<String>,
    ) -> Result<Result<(Probe, String), String>, String> {
        let more = cases.len().saturating_sub(1);
        for case in cases.iter().take(MOST_ASKED_AGAIN) {
            let probe = Probe { judge, case: Some(case.clone()) };
            if let Finding::Failed(_) = probe.ask(&self.scratch, program)? {
                return Ok(Ok((probe, in_words(case, more))));
            }
        }
        Ok(Err(cases.into_iter().next().unwrap_or_default()))
    }

    /// Whether a judge who has noticed something is quiet now that it is gone.
    fn is_sober(&mut self, probe: &Probe) -> Result<(), String> {
        if self.sober.contains(probe) {
            return Ok(());
        }
        let program = probe.judge.build(&self.scratch)?;
        self.check_sober(probe, &program)
    }

    fn check_sober(&mut self, probe: &Probe, program: &Path) -> Result<(), String> {
        let why = match probe.ask(&self.scratch, program) {
            Ok(Finding::Well(_)) => {
                self.sober.insert(probe.clone());
                return Ok(());
            }
            Ok(Finding::Broken(what)) => format!("finds fault: {what}"),
            Ok(Finding::Failed(_)) => "fails".to_owned(),
            Ok(Finding::Hangs) => "does not end".to_owned(),
            Err(why) => why,
        };
        Err(format!("while nothing is planted, {probe}: {why}"))
    }
}

/// A case that failed, and how many others did.
fn in_words(case: &str, others: usize) -> String {
    match others {
        0 => format!("`{case}`"),
        _ => format!("`{case}` and {others} more"),
    }
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
