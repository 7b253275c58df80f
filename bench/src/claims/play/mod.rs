//! Tries what the claims need on one server, in a process of its own: a case that fails panics, and says so on standard
//! error.

pub(crate) mod harness;
mod scenes;
mod side;

use std::process::Stdio;
use std::time::Duration;

use lock_conformance::environment::MACHINE;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

pub(crate) use self::side::run;
use crate::Outcome;
use crate::report::Played;

/// The other process begins a line with it that tells the outcome of a trial. Cases print other lines.
const MARK: &str = "played ";
/// All trials on one server have so much time.
const LIMIT: Duration = Duration::from_secs(240);

/// Tries everything on the server at `url`. The other process, and the servers that it has started, end when this is
/// dropped.
pub(crate) async fn play(server: &str, url: &str) -> Outcome<Vec<Played>> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("play-claims")
        // Where a test has started this program, that test has a turn already, which these cases are part of. They must
        // not wait for another one: a program that waits to have the machine alone waits for that test.
        .env_remove(MACHINE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What a case says when it fails is in its outcome.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    // Not in its arguments: other users can see those, and the URL may hold a password.
    let mut input = process.stdin.take().ok_or("the other process has no input")?;
    input.write_all(format!("{url}\n").as_bytes()).await?;
    drop(input);
    let output = tokio::time::timeout(LIMIT, process.wait_with_output()).await;
    let output = output.map_err(|_| "the trials of the claims took too long")??;
    if !output.status.success() {
        return Err(format!("the trials of the claims ended with {}", output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut all = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
        let played: Played = serde_json::from_str(line)?;
        all.push(Played { server: server.to_owned(), ..played });
    }
    Ok(all)
}
