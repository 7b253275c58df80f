//! `own-names` of locks in other languages. Their drivers are processes, which time what they do: what passes through
//! their pipes is not part of a latency.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::peers::Peer;
use crate::tally::Slice;
use crate::workloads::contenders::slice_of;
use crate::workloads::messages::Order;
use crate::workloads::other_process::OtherProcess;

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
        // They do not contend for one lock: there is no share of each.
        Ok(Slice { grants: Vec::new(), ..slice_of(names, length) })
    }
}
