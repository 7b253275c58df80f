//! `recovery`: a process that holds a lock is killed (-9). It measures how long it takes until a waiter has the lock.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use onelock::Client;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::subjects::ours::release;
use crate::tally::Slice;
use crate::workloads::held::nth_name;
use crate::workloads::messages::Order;
use crate::workloads::other_process::OtherProcess;

/// The waiter begins its wait within this time, before the holder is killed.
const SETTLE: Duration = Duration::from_millis(100);
/// A holder renews its lock after each third of the ttl. It is killed at different moments between two renewals.
const PHASES: u32 = 4;

/// One waiter in this process, and one holder after the other in processes of their own.
pub(crate) struct Recovery {
    waiter: Client,
    url: String,
    name: String,
    ttl: Duration,
    killed: u32,
}

impl Recovery {
    pub(crate) async fn new(url: &str, name: &str, ttl: Duration) -> Outcome<Recovery> {
        let waiter = onelock::connect(url).await?;
        Ok(Recovery { waiter, url: url.to_owned(), name: name.to_owned(), ttl, killed: 0 })
    }

    /// Kills a holder, and returns the wait of the waiter from then on.
    async fn once(&mut self) -> Outcome<Duration> {
        let mut holder = OtherProcess::start(Kind::Ours, &self.url, &self.name).await?;
        holder.tell(Order::Hold { locks: 1, ttl: self.ttl }).await?;
        holder.ready().await?;
        let lock = self.waiter.lock(nth_name(&self.name, 0)).ttl(self.ttl).build()?;
        let waiting = tokio::spawn(async move {
            let guard = lock.acquire().await?;
            Outcome::Ok((guard, Instant::now()))
        });
        tokio::time::sleep(SETTLE + self.ttl / 3 * (self.killed % PHASES) / PHASES).await;
        let killed = Instant::now();
        holder.kill().await?;
        self.killed += 1;
        let (guard, granted) = waiting.await??;
        release(guard).await?;
        Ok(granted.saturating_duration_since(killed))
    }
}

#[async_trait]
impl Measurement for Recovery {
    /// Kills at least one holder.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (began, mut slice) = (Instant::now(), Slice::default());
        loop {
            slice.record(self.once().await?);
            if began.elapsed() >= length {
                break;
            }
        }
        slice.rate = slice.latencies.len() as f64 / began.elapsed().as_secs_f64();
        let longest = slice.latencies.iter().max().copied().unwrap_or_default();
        let ttl = self.ttl.as_secs_f64() * 1e3;
        slice.extra = vec![("ttl_ms", ttl), ("recovery_over_ttl_ms", longest as f64 / 1e6 - ttl)];
        Ok(slice)
    }
}
