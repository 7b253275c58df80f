//! A program without async. The client has a thread of its own, which renews the lock while the program works.

use std::thread;
use std::time::Duration;

fn main() -> onelock::Result<()> {
    let client = onelock::blocking_connect("memory://")?;
    let lock = client.lock("ledger").ttl(Duration::from_millis(300)).build()?;

    let total = lock.blocking_run(|guard| {
        let mut total = 0;
        for step in 1..=4 {
            thread::sleep(Duration::from_millis(150)); // the four steps together take longer than the lease
            // The library cannot stop this thread, so the thread checks the lock between its steps.
            guard.check()?;
            total += step;
        }
        Ok::<_, onelock::Error>(total)
    })??;
    println!("total {total}, held to the end");

    let guard = lock.blocking_acquire()?;
    println!(
        "{:?}",
        thread::spawn(move || guard.blocking_release()).join().expect("the thread does not panic")
    );
    Ok(())
}
