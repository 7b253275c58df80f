//! The process of the raw driver in `first-lock`: it does what `lock run -- true` does, and nothing else.

use std::env;
use std::process::Command;

use crate::Outcome;
use crate::args::RawRun;
use crate::subjects::alone;

/// The variable with the server's URL: it may have a password in it, and other users can see the arguments.
pub(super) const URL: &str = "LOCK_URL";
/// The variable with what the parent knows of the name.
pub(super) const TOLD: &str = "LOCK_BENCH_TOLD";
/// The line by which a process says on stderr that it has the lock.
pub(super) const ACQUIRED: &str = "acquired";

/// Takes the lock, runs `true`, and releases it.
pub(crate) async fn run(options: RawRun) -> Outcome<()> {
    let mut side = alone(&env::var(URL)?, &options.name, &env::var(TOLD)?).await?;
    side.acquire().await?;
    eprintln!("{ACQUIRED}");
    // It blocks this thread, which has nothing else to do.
    let status = Command::new("true").status()?;
    side.release().await?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the command ended with {status}").into()),
    }
}
