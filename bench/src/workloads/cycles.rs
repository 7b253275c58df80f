//! `own-names`: tasks that acquire and release for as long as a slice lasts. Those of locks in other languages are in
//! driver processes, which time them: what passes through their pipes is not part of a latency.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::peers::Peer;
use crate::subjects::{Side, Subject};
use crate::tally::Slice;
use crate::workloads::contenders::{Turn, slice_of, take_turns};
use crate::workloads::messages::{Order, Turns};
use crate::workloads::other_process::OtherProcess;

pub(crate) struct Cycles {
    workers: Vec<Box<dyn Side>>,
}

impl Cycles {
    /// One task for each name.
    pub(crate) async fn new(subject: &dyn Subject, names: &[String]) -> Outcome<Cycles> {
        let mut workers = Vec::new();
        for name in names {
            workers.push(subject.worker(name).await?);
        }
        Ok(Cycles { workers })
    }
}

#[async_trait]
impl Measurement for Cycles {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        Ok(slice_of_cycles(take_turns(&mut self.workers, Turn::Cycle, length).await, length))
    }
}

/// Tasks on names of their own do not contend for one lock: there is no share of each.
fn slice_of_cycles(names: Vec<Turns>, length: Duration) -> Slice {
    Slice { grants: Vec::new(), ..slice_of(names, length) }
}

/// A driver runs for so long before it is measured: a virtual machine compiles what has run often.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);

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
        Ok(slice_of_cycles(names, length))
    }
}
