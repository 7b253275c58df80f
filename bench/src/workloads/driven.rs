//! `own-names` and `hand-over` of locks in other languages. Their drivers are processes, which time what they do: what
//! passes through their pipes is not part of a latency.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::peers::Peer;
use crate::tally::Slice;
use crate::workloads::contenders::slice_of;
use crate::workloads::hand_over::{SETTLE, rate};
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// How long each driver runs before it is measured: a virtual machine compiles what has run often.
const WARM_UP: Duration = Duration::from_secs(2);

/// The cycles of one driver.
pub(crate) struct DrivenCycles {
    driver: OtherProcess,
}

impl DrivenCycles {
    /// Starts the driver, which has a task or a thread for each name.
    pub(crate) async fn new(peer: Peer, url: &str, names: &[String]) -> Outcome<DrivenCycles> {
        let mut cycles = DrivenCycles { driver: OtherProcess::driver(peer, url, names).await? };
        cycles.run(WARM_UP).await?;
        Ok(cycles)
    }
}

#[async_trait]
impl Measurement for DrivenCycles {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        self.driver.go_on()?;
        self.driver.tell(Order::Cycle(length)).await?;
        let names = self.driver.competed().await?;
        self.driver.stop()?;
        // They do not contend for one lock: there is no share of each.
        Ok(Slice { grants: Vec::new(), ..slice_of(names, length) })
    }
}

/// Two drivers that hold one name in turn.
pub(crate) struct DrivenHandOver {
    /// The one that acquires first in a slice, and then the one that holds the lock.
    holder: OtherProcess,
    waiter: OtherProcess,
}

impl DrivenHandOver {
    pub(crate) async fn new(peer: Peer, url: &str, name: &str) -> Outcome<DrivenHandOver> {
        let names = [name.to_owned()];
        let holder = OtherProcess::driver(peer, url, &names).await?;
        let waiter = OtherProcess::driver(peer, url, &names).await?;
        let mut hand_over = DrivenHandOver { holder, waiter };
        hand_over.run(WARM_UP).await?;
        Ok(hand_over)
    }

    /// Hands the lock from the one to the other, and returns how long that took.
    async fn hand_over(&mut self) -> Outcome<Duration> {
        self.waiter.tell(Order::Acquire).await?;
        tokio::time::sleep(SETTLE).await;
        let released = self.holder.release().await?;
        let granted = self.waiter.granted().await?;
        std::mem::swap(&mut self.holder, &mut self.waiter);
        Ok(granted.saturating_sub(released))
    }
}

#[async_trait]
impl Measurement for DrivenHandOver {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        self.holder.go_on()?;
        self.waiter.go_on()?;
        let end = Instant::now() + length;
        let mut slice = Slice::default();
        self.holder.tell(Order::Acquire).await?;
        self.holder.granted().await?;
        while Instant::now() < end {
            slice.record(self.hand_over().await?);
        }
        self.holder.release().await?;
        slice.rate = rate(&slice);
        self.holder.stop()?;
        self.waiter.stop()?;
        Ok(slice)
    }
}
