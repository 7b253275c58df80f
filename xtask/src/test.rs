//! Every test of the workspace, on the servers of this machine.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::catalogue::{self, LOCK_BIN, RECORD};
use crate::foreign;
use crate::setup::{self, Consent};
use crate::steps::{Steps, command};
use crate::summary::Summary;
use crate::workspace::{cargo, programs};

/// What is built: the same for both steps, so that the second builds nothing.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// `cargo xtask test`
pub(crate) fn run(consent: Consent) -> ExitCode {
    let mut missing = setup::servers(catalogue::ALL, consent);
    missing.extend(foreign::clients(consent));
    let mut steps = Steps::default();
    // The program lock too, which tests start.
    steps.step("build", || command(cargo("build", &EVERYTHING).arg("--all-targets")));
    if steps.all_well() {
        let notes = programs().join("xtask-test-notes");
        steps.step("tests", || tests(&notes));
        let mut summary = Summary::read(&fs::read_to_string(&notes).unwrap_or_default());
        missing.into_iter().for_each(|why| summary.missing(why));
        println!("\n{summary}");
    }
    steps.finish()
}

fn tests(notes: &Path) -> Result<(), String> {
    // The last run's. That there are none is no error.
    let _ = fs::remove_file(notes);
    let lock = programs().join(format!("lock{}", std::env::consts::EXE_SUFFIX));
    let mut tests = cargo("test", &EVERYTHING);
    // A failed case says where and why by itself; sixty frames of a runtime would bury it.
    tests.arg("--no-fail-fast").env("RUST_BACKTRACE", "0").env(LOCK_BIN, lock).env(RECORD, notes);
    command(&mut tests)
}
