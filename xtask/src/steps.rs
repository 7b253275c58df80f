//! Steps of a run. Each is named and timed, and the next step runs even if one failed.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The steps that were done so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    failed: Vec<String>,
    /// Steps that can't be run here, with the reason.
    not_run: Vec<String>,
}

/// The end of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// The step can't be run here, for this reason.
    NotRun(String),
}

impl Steps {
    /// Runs one step.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) {
        self.step_if_possible(name, || work().map(|()| End::Done));
    }

    /// Runs one step, which may find that it can't be run here.
    pub(crate) fn step_if_possible(&mut self, name: &str, work: impl FnOnce() -> Result<End, String>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = work();
        let took = start.elapsed().as_secs_f64();
        match outcome {
            Ok(End::Done) => println!("==> {name}: done in {took:.1} s"),
            Ok(End::NotRun(why)) => {
                println!("==> {name}: not run: {why}");
                self.not_run.push(format!("{name} ({why})"));
            }
            Err(why) => {
                println!("==> {name}: FAILED after {took:.1} s: {why}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Returns whether no step has failed so far.
    pub(crate) fn all_well(&self) -> bool {
        self.failed.is_empty()
    }

    /// Returns the outcome of all steps in one line.
    pub(crate) fn outcome(&self) -> String {
        let not_run = match self.not_run.as_slice() {
            [] => String::new(),
            not_run => format!("Not run: {}. ", not_run.join(", ")),
        };
        match self.failed.as_slice() {
            [] if not_run.is_empty() => "Every step is done.".to_owned(),
            [] => format!("{not_run}Every other step is done."),
            failed => format!("{not_run}Failed: {}", failed.join(", ")),
        }
    }

    /// Prints the outcome and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        println!("\n{}", self.outcome());
        if self.all_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a command to its end. Its output is shown at once.
pub(crate) fn command(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Runs a command to its end without showing its output. If the command fails, the error has the output.
pub(crate) fn quietly(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Err(format!("{}\n{program}: {}", String::from_utf8_lossy(&said).trim_end(), output.status))
        }
        Err(error) => Err(format!("{program}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_runs_after_a_failed_one() {
        let mut steps = Steps::default();
        steps.step("bad", || command(&mut Command::new("there-is-no-such-program")));
        steps.step("good", || Ok(()));
        steps.step_if_possible("odd", || Ok(End::NotRun("no way".to_owned())));
        assert!(!steps.all_well());
        assert_eq!(steps.outcome(), "Not run: odd (no way). Failed: bad");
        let mut steps = Steps::default();
        steps.step("good", || Ok(()));
        assert_eq!(steps.outcome(), "Every step is done.");
    }
}
