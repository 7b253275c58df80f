//! A program without async. The client has a thread of its own, which renews while this one works.

use std::thread;
use std::time::Duration;

fn main() -> onelock::Result<()> {
    let client = onelock::blocking_connect("memory://")?;
    let lock = client.lock("ledger").ttl(Duration::from_millis(300)).build()?;

    let total = lock.blocking_run(|guard| {
        let mut total = 0;
        for step in 1..=4 {
            thread::sleep(Duration::from_millis(150)); // longer than the lease, all together
            // Nothing can stop this thread from outside: between its steps it asks.
            guard.check()?;
            total += step;
        }
        Ok::<_, onelock::Error>(total)
    })??;
    println!("total {total}, held to the end");

    let guard = lock.blocking_acquire()?;
    println!("{:?}", thread::spawn(move || guard.blocking_release()).join().expect("it doesn't panic"));
    Ok(())
}
