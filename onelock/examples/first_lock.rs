//! The first lock: wait for it, work under it, release it.
//!
//! `cargo run -p onelock --example first_lock -- redis://localhost` takes it on a server (with the feature "redis").

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> onelock::Result<()> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = onelock::connect(&server).await?;
    let lock = client.lock("first").wait(Duration::from_secs(10)).build()?;

    // Waits for its turn and renews the lock while the work runs. Drops the work if the lock is lost, and releases it
    // at the end.
    let answer = lock.run(async |_guard| 6 * 7).await?;
    println!("worked out under the lock: {answer}");
    Ok(())
}
