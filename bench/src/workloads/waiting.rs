//! `waiting`: how many requests processes send to the server when they have waited for long.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::{Counter, Feeds};
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// How many processes `quick` has.
pub(crate) const PROCESSES: usize = 8;
/// How long the processes have waited when requests begin to be counted.
const LONG: Duration = Duration::from_secs(10);
/// How long requests are counted, at least and at most: the servers' statistics may be a second old.
const WINDOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));

/// Processes that wait, and one that holds.
pub(crate) struct Waiting {
    holder: Box<dyn Side>,
    processes: Vec<OtherProcess>,
    counter: Counter,
}

impl Waiting {
    /// Starts this many processes.
    pub(crate) async fn new(
        kind: Kind,
        backend: Backend,
        url: &str,
        name: &str,
        count: usize,
    ) -> Outcome<Waiting> {
        let mut processes = Vec::new();
        for _ in 0..count {
            let mut process = OtherProcess::start(kind, url, name).await?;
            process.order(Order::Gather(1)).await?;
            processes.push(process);
        }
        let holder = kind.connect(url).await?.side(name).await?;
        Ok(Waiting { holder, processes, counter: Counter::of(backend, url).await? })
    }

    /// Measures how many requests the server gets in a second, from all clients.
    async fn rate(&mut self, window: Duration) -> Outcome<f64> {
        let (began, before) = (Instant::now(), self.counter.read(Feeds::Counted).await?);
        tokio::time::sleep(window).await;
        let after = self.counter.read(Feeds::Counted).await?;
        Ok(after.saturating_sub(before) as f64 / began.elapsed().as_secs_f64())
    }
}

#[async_trait]
impl Measurement for Waiting {
    /// The rate is that of one process.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let window = length.clamp(WINDOW.0, WINDOW.1);
        self.holder.acquire().await?;
        // The requests that the server gets anyway, from clients that check on it and from this measurement.
        let idle = self.rate(window).await?;
        for process in &mut self.processes {
            process.order(Order::WaitAll).await?;
        }
        tokio::time::sleep(LONG).await;
        let busy = self.rate(window).await?;
        for process in &mut self.processes {
            process.order(Order::Leave).await?;
        }
        self.holder.release().await?;
        Ok(Slice { rate: (busy - idle).max(0.0) / self.processes.len() as f64, ..Slice::default() })
    }

    async fn end(self: Box<Self>) -> Outcome<()> {
        self.counter.end().await
    }
}
