//! A worker that stops when its lock is lost, and one that stops early when its lock is about to be lost.

use std::convert::Infallible;
use std::time::Duration;

use onelock::{Guard, Result, When};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = onelock::connect("memory://").await?;
    let lock = client.lock("queue-7").ttl(Duration::from_millis(600)).build()?;

    // The work is dropped at whatever point it is, before another client can hold the lock.
    let guard = lock.acquire().await?;
    take_it_away(&lock).await?;
    match guard.protect(work_for_ever()).await {
        Ok(never) => match never {},
        Err(lost) => println!("stopped: {}", lost.message()),
    }
    drop(guard);

    // Or the work is told to finish while there is still time.
    let lock =
        client.lock("queue-8").ttl(Duration::from_millis(600)).max_hold(Duration::from_secs(1)).build()?;
    let guard = lock.acquire().await?;
    let steps = work_while_safe(&guard).await;
    println!("came to an end by itself: {}", guard.is_held() && steps > 10);
    println!("{:?}", guard.release().await);
    Ok(())
}

async fn work_for_ever() -> Infallible {
    std::future::pending().await
}

async fn work_while_safe(guard: &Guard) -> u32 {
    let mut steps = 0;
    tokio::select! {
        cause = guard.at_risk(Duration::from_millis(150)) => println!("about to be lost: {cause}"),
        () = async { loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            steps += 1;
        }} => {}
    }
    steps
}

/// Does what `lock break` does.
async fn take_it_away(lock: &onelock::Lock) -> Result<()> {
    if let Some(holder) = lock.inspect().await?.holder {
        lock.revoke(&holder.owner, When::HoldersDeadline).await?;
    }
    Ok(())
}
