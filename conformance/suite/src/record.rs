//! Records what the suite ran on and what it could not run, for the summary of `cargo xtask test`.
//!
//! There are many test programs, and most of their output is not shown. Each of them appends its lines to one file.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

use crate::environment::RECORD;
use crate::failure::Failure;

/// Records the server that cases ran on, and where it comes from.
pub fn ran_on(version: &str, source: &impl Display) {
    note("server", &format!("{version}, {source}"));
}

/// Records what is missing. What is not run for this reason then needs no line of its own.
pub fn absent(name: &str, why: &str) {
    note("absent", &format!("{name}: {why}"));
}

/// Records what could not be run, and why.
pub fn not_run(what: &str, why: &str) {
    note("not run", &format!("{what}: {why}"));
}

/// Records a case that was run again, and why.
pub(crate) fn run_again(what: &str, why: &Failure) {
    let kind = if matches!(why, Failure::Late(_)) { "excused" } else { "void" };
    note(kind, &format!("{what}: {why}"));
}

/// Records a case that failed, and why.
pub(crate) fn failed(what: &str, why: &str) {
    note("failed", &format!("{what}: {why}"));
}

/// Writes one line in one write, so that lines of several processes don't mix. Ignores errors: a summary must fail no
/// case.
fn note(kind: &str, text: &str) {
    let Some(file) = std::env::var_os(RECORD) else { return };
    let line = format!("{kind}\t{}\n", text.replace('\n', " "));
    let file = OpenOptions::new().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
