//! Steps of a run: each is named and timed, and a failed one doesn't keep the next from being tried.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// What has been done so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    failed: Vec<String>,
    took: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs one.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = work();
        self.took.push((name.to_owned(), start.elapsed()));
        let took = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("==> {name}: done in {took:.1} s"),
            Err(why) => {
                println!("==> {name}: FAILED after {took:.1} s: {why}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Whether all went well so far.
    pub(crate) fn all_well(&self) -> bool {
        self.failed.is_empty()
    }

    /// How long one took; nothing if it was not run.
    pub(crate) fn took(&self, name: &str) -> Duration {
        self.took.iter().filter(|(step, _)| step == name).map(|(_, took)| *took).sum()
    }

    /// How it went, in a line.
    pub(crate) fn outcome(&self) -> String {
        match self.failed.as_slice() {
            [] => "Every step is done.".to_owned(),
            failed => format!("Failed: {}", failed.join(", ")),
        }
    }

    /// Says how it went.
    pub(crate) fn finish(self) -> ExitCode {
        println!("\n{}", self.outcome());
        if self.all_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs a command to its end; what it prints is seen at once.
pub(crate) fn command(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Runs a command to its end beside others that are seen: what it prints is shown if it fails, in the error.
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
    use std::process::Command;

    use super::{Steps, command};

    #[test]
    fn a_failed_step_is_kept_and_the_next_one_runs() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.step("bad", || command(&mut Command::new("there-is-no-such-program")));
        steps.step("good", || {
            ran = true;
            Ok(())
        });
        assert!(ran && !steps.all_well());
        assert_eq!(steps.failed, ["bad"]);
    }
}
