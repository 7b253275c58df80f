//! A call tree that takes the same lock at several depths. All calls share one owner, so no call waits for another one.

use onelock::{Client, Reentrant, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = onelock::connect("memory://").await?;
    let job = Reentrant::new();
    close_the_month(&client, &job).await?;

    // A caller outside of the job finds the lock free now.
    println!("free again: {}", client.lock("ledger").build()?.try_acquire().await?.is_some());
    Ok(())
}

async fn close_the_month(client: &Client, job: &Reentrant) -> Result<()> {
    let guard = client.lock("ledger").reentrant(job).build()?.acquire().await?;
    for account in ["rent", "salaries"] {
        post(client, job, account).await?;
    }
    println!("closed, still held: {}", guard.is_held());
    let _ = guard.release().await;
    Ok(())
}

/// Called alone, it takes the lock. Called by a holder with the same owner, it enters the lock again.
async fn post(client: &Client, job: &Reentrant, account: &str) -> Result<()> {
    let lock = client.lock("ledger").reentrant(job).build()?;
    lock.run(async |_guard| println!("posted {account}")).await
}
