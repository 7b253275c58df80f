//! What the suite ran on and what it could not run, noted for the summary of `cargo xtask test`.
//!
//! Test programs are many processes whose output is mostly swallowed; each appends its lines to one file.

use std::fs::OpenOptions;
use std::io::Write;

use super::Source;
use super::catalogue::RECORD;

/// Notes the server that cases ran on.
pub(super) fn ran_on(version: &str, source: &Source) {
    note("server", &format!("{version}, {source}"));
}

/// Notes what is not there. Whatever is not run for this reason needs no line of its own then.
pub(super) fn absent(name: &str, why: &str) {
    note("absent", &format!("{name}: {why}"));
}

/// Notes what could not be run, and why.
pub fn not_run(what: &str, why: &str) {
    note("not run", &format!("{what}: {why}"));
}

/// Notes a case whose lateness the machine excuses, and why.
pub(crate) fn excused(what: &str, why: &str) {
    note("excused", &format!("{what}: {why}"));
}

/// Notes a case that has shown nothing and is asked again, and why.
pub(crate) fn void(what: &str, why: &str) {
    note("void", &format!("{what}: {why}"));
}

/// Notes a case that failed, and why.
pub(crate) fn failed(what: &str, why: &str) {
    note("failed", &format!("{what}: {why}"));
}

/// One line in one write, so that lines of several processes don't mix. Best effort: a summary fails no case.
fn note(kind: &str, text: &str) {
    let Some(file) = std::env::var_os(RECORD) else { return };
    let line = format!("{kind}\t{}\n", text.replace('\n', " "));
    let file = OpenOptions::new().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
