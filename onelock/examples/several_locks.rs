//! Several locks at once, all or none. Every caller takes them in the same order, so callers cannot wait for each other
//! in a circle.

use onelock::{Client, MultiLock, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = onelock::connect("memory://").await?;
    let (one, other) = tokio::join!(transfer(&client, "anna", "ben"), transfer(&client, "ben", "anna"));
    one?;
    other?;
    println!("both are done");
    Ok(())
}

async fn transfer(client: &Client, from: &str, to: &str) -> Result<()> {
    let account = |name: &str| client.lock(format!("account/{name}")).build();
    let both = MultiLock::new([account(from)?, account(to)?])?;
    both.run(async |guard| {
        tokio::task::yield_now().await;
        println!("{} accounts are held", guard.guards().len());
    })
    .await
}
