//! A copy of the work tree in which bugs are planted. It is kept with its build results, so that a planted bug costs only
//! what cargo has to build for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Judge;
use crate::git::git;
use crate::targets;
use crate::workspace::{cargo, root};

/// The longest time that a case may take. The suite ends one that hangs after a minute, a backend's own tests after two.
const LONGEST: Duration = Duration::from_secs(180);

/// The copy: a work tree of git's.
pub(super) struct Scratch {
    folder: PathBuf,
}

/// The answer of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Passed,
    Failed,
}

impl Scratch {
    /// Makes the copy, or updates it. It has what is not committed, but no file that git does not know.
    pub(super) fn make() -> Result<Scratch, String> {
        let scratch = Scratch { folder: root().join("target/mutants") };
        let author = ["-c", "user.name=xtask", "-c", "user.email=xtask@localhost", "stash", "create"];
        let commit = match git(root(), &author)?.trim() {
            "" => git(root(), &["rev-parse", "HEAD"])?.trim().to_owned(),
            uncommitted => uncommitted.to_owned(),
        };
        match scratch.tree().join(".git").exists() {
            true => git(&scratch.tree(), &["checkout", "--quiet", "--force", "--detach", &commit])?,
            false => {
                let tree = scratch.tree().to_string_lossy().into_owned();
                git(root(), &["worktree", "add", "--quiet", "--force", "--detach", &tree, &commit])?
            }
        };
        Ok(scratch)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(super) fn plant(&self, patch: &str) -> Result<(), String> {
        git(&self.tree(), &["apply", &root().join(patch).to_string_lossy()]).map(drop)
    }

    pub(super) fn take_out(&self, patch: &str) -> Result<(), String> {
        git(&self.tree(), &["apply", "--reverse", &root().join(patch).to_string_lossy()]).map(drop)
    }

    /// Builds the judge's program, and asks its case. `Err` if it gives no answer.
    pub(super) fn ask(&self, judge: &Judge, starts_lock: bool) -> Result<Answer, String> {
        if starts_lock {
            self.build("build", &["-p", "lock-cli"])?;
        }
        let selected: Vec<&str> = judge.program.split(' ').collect();
        let mut command = match judge.is_simulation() {
            true => {
                self.build("build", &selected)?;
                let program = format!("debug/lock-simulation{}", std::env::consts::EXE_SUFFIX);
                let mut command = Command::new(self.folder.join("target").join(program));
                command.args(judge.case.split(' '));
                command
            }
            false => {
                let built = self.build("test", &[&["--no-run"][..], &selected].concat())?;
                let program = targets::read(&built).pop().ok_or("cargo builds no such test program")?.program;
                let mut command = Command::new(program);
                command.args(["--exact", "--", &judge.case]);
                command
            }
        };
        // If these servers are missing, that is an error and no verdict.
        command.current_dir(self.tree()).env("LOCK_TEST_REQUIRE", "redis,mongodb").env("RUST_BACKTRACE", "0");
        let (succeeded, said) = self.run(command)?;
        let ran_none =
            !said.lines().any(|line| line.starts_with("test result: ok.") && !line.contains(" 0 passed"));
        match succeeded {
            true if ran_none && !judge.is_simulation() => Err("no such case was run".to_owned()),
            true => Ok(Answer::Passed),
            false if said.lines().any(is_failure) => Ok(Answer::Failed),
            false => Err(format!("it gave no result:\n{}", tail(&said))),
        }
    }

    /// Runs cargo in the copy, and returns its messages.
    fn build(&self, verb: &str, arguments: &[&str]) -> Result<String, String> {
        let mut cargo = cargo(verb, arguments);
        cargo.current_dir(self.tree()).args(["--quiet", "--message-format", "json-render-diagnostics"]);
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let output = cargo.stdin(Stdio::null()).output().map_err(|error| format!("cargo: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("it can't be built:\n{}", tail(&String::from_utf8_lossy(&output.stderr)))),
        }
    }

    /// Runs a program to its end, or kills it. Returns whether it succeeded, and its output.
    fn run(&self, mut command: Command) -> Result<(bool, String), String> {
        let path = self.folder.join("output");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let output = File::create(&path).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().map_err(failed)?;
        let deadline = Instant::now() + LONGEST;
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                None => {
                    // A test program's servers end with it: each waits for the end of a pipe that the program holds.
                    child.kill().and_then(|()| child.wait()).map_err(failed)?;
                    return Err(format!("it does not end within {LONGEST:?}"));
                }
            }
        };
        Ok((status.success(), String::from_utf8_lossy(&fs::read(&path).map_err(failed)?).into_owned()))
    }
}

/// Returns whether a line says that a test failed, or that the simulation found a violation.
fn is_failure(line: &str) -> bool {
    line.starts_with("test result: FAILED") || line.starts_with("seed ") || line.contains("panicked at ")
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
