//! A resource that refuses a holder that was stopped for too long. It accepts a write only if the fencing token is not
//! lower than the last one.

use std::sync::Mutex;
use std::time::Duration;

use onelock::{Fence, FencingToken, Result, Stale};

/// A resource that holders write to, and that outlives them. In a database the fence is a row beside the data: see
/// `onelock::redis::FencedWrite`, `onelock::sqlite::Fence`.
#[derive(Default)]
struct Ledger {
    fence: Fence,
    lines: Mutex<Vec<String>>,
}

impl Ledger {
    fn write(&self, token: FencingToken, line: &str) -> Result<(), Stale> {
        self.fence.accept(token)?;
        self.lines.lock().expect("no thread panics here").push(line.to_owned());
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let ledger = Ledger::default();
    let client = onelock::connect("memory://").await?;
    let lock = client.lock("ledger").ttl(Duration::from_millis(100)).fixed_lease().build()?;

    let sleeper = lock.acquire().await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let successor = lock.acquire().await?;
    println!("successor writes: {:?}", ledger.write(successor.token(), "paid 10").is_ok());
    // The sleeper wakes up, does not know that it lost the lock, and writes. Without the fence this would succeed.
    println!("sleeper writes: {:?}", ledger.write(sleeper.token(), "paid 10").is_ok());
    println!("lines: {}", ledger.lines.lock().expect("no thread panics here").len());
    Ok(())
}
