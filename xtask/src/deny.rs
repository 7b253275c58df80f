//! Runs `cargo deny` on what users build: licences, versions that are there twice, sources, advisories.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::install::is_program;
use crate::steps::{End, command};
use crate::workspace::{root, target};

/// Checks all that can be checked without the network.
pub(crate) fn check() -> Result<End, String> {
    let Some(program) = program() else { return Ok(End::NotRun(MISSING.to_owned())) };
    let check = ["--locked", "--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    command(Command::new(program).current_dir(root()).args(check)).map(|()| End::Done)
}

/// Checks whether a dependency has a known vulnerability. The list of them is in a repository, which has to be reached.
pub(crate) fn check_advisories() -> Result<End, String> {
    let Some(program) = program() else { return Ok(End::NotRun(MISSING.to_owned())) };
    let mut fetch = Command::new(&program);
    // A network that swallows everything must not hold the other steps up.
    fetch.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "20");
    fetch.current_dir(root()).args(["fetch", "db"]).stderr(Stdio::null());
    if command(&mut fetch).is_err() {
        return Ok(End::NotRun("the advisories can't be fetched here".to_owned()));
    }
    let check = ["--locked", "--offline", "check", "advisories"];
    command(Command::new(program).current_dir(root()).args(check)).map(|()| End::Done)
}

const NAME: &str = "cargo-deny";
const MISSING: &str = "there is no cargo-deny; `cargo install --locked cargo-deny` builds it, and on Linux on an x86-64 \
    processor `sh xtask/src/cargo-deny.sh target/tools` downloads it";

/// Returns the program: one on the `PATH`, or that of `xtask/src/cargo-deny.sh`.
fn program() -> Option<PathBuf> {
    let ours = target().join("tools").join(NAME);
    if is_program(NAME) { Some(PathBuf::from(NAME)) } else { Some(ours).filter(|ours| ours.is_file()) }
}
