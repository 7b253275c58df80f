//! Testing one's own code: a server in the test's own process that loses a lock, or everything, on demand.

use std::time::Duration;

use onelock::memory::Memory;
use onelock::{Client, Guard, Result};

/// What is to be tested: it must not report success for work whose lock was lost.
async fn import(client: &Client, read: impl AsyncFnOnce(&Guard)) -> Result<&'static str> {
    let lock = client.lock("import").ttl(Duration::from_millis(600)).build()?;
    lock.run(async |guard| {
        read(guard).await;
        "imported"
    })
    .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = Memory::new();
    let client = server.client().await?;
    println!("with a healthy server: {}", import(&client, async |_guard| ()).await?);

    let outcome = import(&client, async |guard| {
        server.wipe();
        // Noticed by the next renewal. A sleep would be too short one day, on a machine that has no time.
        guard.lost().await;
    });
    println!("when the server forgets: {:?}", outcome.await.map_err(|e| e.kind()));
    Ok(())
}
