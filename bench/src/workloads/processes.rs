//! `processes`: several processes on one name, in most cases eight. Each acquires, holds for a moment, releases, and
//! pauses for as long. It measures how long each acquisition waits, and how many are granted.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::tally::Slice;
use crate::workloads::contenders::slice_of;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// How many there are, unless their number is what is measured.
pub(crate) const EIGHT: usize = 8;

/// The processes of one subject.
pub(crate) struct Processes(Vec<OtherProcess>);

impl Processes {
    pub(crate) async fn new(kind: Kind, url: &str, name: &str, count: usize) -> Outcome<Processes> {
        let mut processes = Vec::new();
        for _ in 0..count {
            processes.push(OtherProcess::start(kind, url, name).await?);
        }
        Ok(Processes(processes))
    }
}

#[async_trait]
impl Measurement for Processes {
    /// The rate is that of the grants within the slice: those of the waits that were under way at its end are later.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        for process in &mut self.0 {
            process.tell(Order::Contend(length)).await?;
        }
        let (mut turns, mut errors) = (Vec::new(), Vec::new());
        for process in &mut self.0 {
            match process.competed().await {
                Ok(competed) => turns.extend(competed),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let mut slice = slice_of(turns, length);
        slice.errors.extend(errors);
        Ok(slice)
    }
}
