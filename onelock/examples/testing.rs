//! Testing one's own code: a server in the test's own process that loses a lock, or everything, on demand.

use std::time::Duration;

use onelock::memory::Memory;
use onelock::{Client, ErrorKind, Result};

/// What is to be tested: it must not report success for work whose lock was lost.
async fn import(client: &Client) -> Result<&'static str> {
    let lock = client.lock("import").ttl(Duration::from_millis(600)).build()?;
    lock.run(async |_guard| {
        tokio::time::sleep(Duration::from_millis(400)).await;
        "imported"
    })
    .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = Memory::new();
    println!("with a healthy server: {}", import(&server.client().await?).await?);

    let client = server.client().await?;
    let (outcome, ()) = tokio::join!(import(&client), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.wipe();
    });
    println!("when the server forgets: {:?}", outcome.map_err(|e| e.kind()) == Err(ErrorKind::Lost));
    Ok(())
}
