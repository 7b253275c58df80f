//! Runs all tests of the workspace on the servers of this machine, or the quick ones.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use crate::beside::{self, Ran, Work};
use crate::catalogue::{LOCK_BIN, REDIS};
use crate::environment::{FULL, MACHINE, RECORD};
use crate::scratch::Scratch;
use crate::setup::{Consent, Missing, Plan, prepare_build};
use crate::steps::Steps;
use crate::summary::Summary;
use crate::targets::{self, Lane, Target};
use crate::workspace::{cargo, programs};

/// The extent of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Everything,
    /// The core, and the backends that need no server or an easily available one: memory, SQLite and Redis.
    Quick,
    /// The test programs, and the simulation's families, whose names contain one of these: `lock-zk: conformance`,
    /// `simulation: lease`.
    Programs(Vec<String>),
}

/// The size of the cases that have sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// As much as fits into a run of minutes.
    Usual,
    Full,
}

/// Cargo's arguments for the whole workspace.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// The environment variable that says how many waiting programs run at a time.
const BESIDE: &str = "LOCK_TEST_BESIDE";

/// The name of the documentation's examples in lists of programs.
const EXAMPLES: &str = "the documentation's examples";

impl Extent {
    /// Returns cargo's arguments that select what to build.
    fn selection(&self) -> Vec<&'static str> {
        match self {
            Extent::Everything | Extent::Programs(_) => EVERYTHING.to_vec(),
            Extent::Quick => {
                let packages = ["lock-core", "lock-memory", "lock-redis", "lock-sql", "lock-cli"];
                // Of lock-sql's tests, those of SQLite.
                let tests =
                    ["life", "clients", "late_messages", "conformance", "redis", "sqlite", "machine", "run"];
                let packages = packages.into_iter().flat_map(|package| ["--package", package]);
                let tests = tests.into_iter().flat_map(|test| ["--test", test]);
                packages.chain(["--lib", "--bins"]).chain(tests).collect()
            }
        }
    }

    /// Returns whether any test program may be run.
    pub(crate) fn has_programs(&self) -> bool {
        match self {
            Extent::Everything | Extent::Quick => true,
            Extent::Programs(names) => names.iter().any(|name| !name.starts_with("simulation: ")),
        }
    }

    /// Returns whether this test program is run, or this family of the simulation.
    pub(crate) fn has(&self, program: &str) -> bool {
        match self {
            Extent::Everything | Extent::Quick => true,
            Extent::Programs(names) => names.iter().any(|name| program.contains(name)),
        }
    }

    fn plan(&self, consent: Consent) -> Plan {
        match self {
            Extent::Everything | Extent::Programs(_) => Plan::everything(consent),
            Extent::Quick => Plan::of(&[&REDIS], consent),
        }
    }
}

/// `cargo xtask test`
pub(crate) fn run(extent: &Extent, consent: Consent) -> ExitCode {
    let mut steps = Steps::default();
    tested(extent, Size::Usual, consent, &mut steps);
    steps.finish()
}

/// Builds and runs the tests as steps.
pub(crate) fn tested(extent: &Extent, size: Size, consent: Consent, steps: &mut Steps) {
    if extent.selection() == EVERYTHING {
        steps.step("what the build takes", || prepare_build(consent));
        if !steps.all_well() {
            return;
        }
    }
    let plan = extent.plan(consent);
    let (mut built, mut missing) = (Vec::new(), Vec::new());
    // Installing servers mostly waits, and compiling mostly computes, so the two run side by side.
    thread::scope(|scope| {
        let carrying_out = scope.spawn(move || plan.carry_out());
        steps.step("build", || {
            built = build(extent)?;
            built.retain(|target| extent.has(&target.name));
            match built.is_empty() {
                true => Err("there is no such test program".to_owned()),
                false => Ok(()),
            }
        });
        missing = carrying_out.join().expect("a job that fails returns an error and does not panic");
    });
    if !steps.all_well() {
        return;
    }
    let (mut ran, last) = (Vec::new(), noted(Vec::new()));
    steps.step("tests", || {
        ran = tests(extent, size, built);
        let failed: Vec<_> = ran.iter().filter(|ran| ran.outcome.is_err()).map(|ran| &*ran.name).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
    });
    let summary = noted(missing);
    println!("\n{summary}");
    println!("Each case that was not run, excused, repeated or failed: {}", notes().display());
    steps.step("excuses", || summary.judge_excuses(&last));
    ran.sort_by_key(|ran| std::cmp::Reverse(ran.took));
    let longest = ran.iter().take(8).map(|ran| format!("{} {:.0} s", ran.name, ran.took.as_secs_f64()));
    println!("\nThe longest programs: {}", longest.collect::<Vec<_>>().join(", "));
}

/// Builds every test program, and the program `lock`, which tests start.
fn build(extent: &Extent) -> Result<Vec<Target>, String> {
    let mut build = cargo("test", &extent.selection());
    build.args(["--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let output = build.spawn().and_then(Child::wait_with_output).map_err(|e| format!("cargo: {e}"))?;
    match output.status.success() {
        true => Ok(targets::read(&String::from_utf8_lossy(&output.stdout))),
        false => Err(output.status.to_string()),
    }
}

fn tests(extent: &Extent, size: Size, built: Vec<Target>) -> Vec<Ran> {
    // The files of the last run. If there are none, that is no error.
    let _ = fs::remove_file(notes());
    let _ = fs::remove_dir_all(output());
    let machine = programs().join("xtask-test-machine");
    let lock = programs().join(format!("lock{}", std::env::consts::EXE_SUFFIX));
    let mut work: Vec<Work> = built
        .into_iter()
        .map(|target| {
            let mut command = Command::new(&target.program);
            command.current_dir(&target.folder).env("CARGO_MANIFEST_DIR", &target.folder);
            Work { name: target.name, command, lane: target.lane }
        })
        .collect();
    if *extent == Extent::Everything {
        let mut examples = cargo("test", &EVERYTHING);
        examples.args(["--doc", "--no-fail-fast"]);
        work.push(Work { name: EXAMPLES.to_owned(), command: examples, lane: Lane::Computes });
    }
    let scratch = match size {
        Size::Usual => Scratch::in_memory(),
        Size::Full => Scratch::on_disk(),
    };
    // What is not run on the backends that are there to be copied is not worth a note.
    for Work { name, command, .. } in &mut work {
        // A failed case says where and why by itself. A backtrace of sixty runtime frames would hide that.
        command.env("RUST_BACKTRACE", "0").env(LOCK_BIN, &lock).env(MACHINE, &machine);
        scratch.lend(command);
        if name != "lock-conformance: examples" {
            command.env(RECORD, notes());
        }
        if size == Size::Full {
            command.env(FULL, "1");
        }
    }
    println!("The output of each program is in {}.", output().display());
    beside::run(work, waiting(), &output())
}

/// Returns how many waiting programs run at a time. With more of them, cases could miss their time bounds.
fn waiting() -> usize {
    let said = std::env::var(BESIDE).ok().and_then(|said| said.parse().ok()).filter(|said| *said > 0);
    said.unwrap_or_else(|| thread::available_parallelism().map_or(2, usize::from))
}

/// Returns the folder with the output of each program.
fn output() -> PathBuf {
    programs().join("xtask-test-output")
}

fn notes() -> PathBuf {
    programs().join("xtask-test-notes")
}

fn noted(missing: Vec<Missing>) -> Summary {
    let mut summary = Summary::read(&fs::read_to_string(notes()).unwrap_or_default());
    missing.iter().for_each(|missing| summary.missing(missing));
    summary
}
