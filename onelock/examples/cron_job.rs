//! A job that several machines start at the same time, and only one runs: a machine that finds the lock held skips it.

use std::time::Duration;

use onelock::{Client, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = onelock::connect("memory://").await?;
    let (one, other) = tokio::join!(nightly(&client, "web-1"), nightly(&client, "web-2"));
    one?;
    other
}

async fn nightly(client: &Client, machine: &str) -> Result<()> {
    // Held for a minimum time, so that a machine whose clock is a little late still finds the lock held.
    let lock = client.lock("nightly-report").min_hold(Duration::from_millis(200)).build()?;
    match lock.try_run(async |_guard| "the report is written").await? {
        Some(done) => println!("{machine}: {done}"),
        None => println!("{machine}: skipped, another machine has the lock"),
    }
    Ok(())
}
