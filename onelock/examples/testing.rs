//! Testing your own code: a server in the test's own process that loses a lock, or all its data, on demand.

use std::time::Duration;

use onelock::memory::Memory;
use onelock::{Client, Guard, Result};

/// The code to be tested. It must not report success for work whose lock was lost.
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
        // The next renewal notices it. A sleep instead could be too short on a busy machine.
        guard.lost().await;
    });
    println!("when the server forgets: {:?}", outcome.await.map_err(|e| e.kind()));
    Ok(())
}
