//! `own-names`: tasks that acquire and release for as long as a slice lasts. Those of locks in other languages are in
//! driver processes, which time them: what passes through their pipes is not part of a latency.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::peers::Peer;
use crate::subjects::{Side, Subject};
use crate::tally::Slice;
use crate::workloads::contenders::slice_of;
use crate::workloads::messages::Order;
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
        let end = Instant::now() + length;
        let mut tasks: JoinSet<Work> = self.workers.drain(..).map(|worker| work(worker, end)).collect();
        let (mut slice, mut in_time) = (Slice::default(), 0);
        while let Some(done) = tasks.join_next().await {
            let done = done?;
            self.workers.push(done.worker);
            slice.latencies.extend(done.slice.latencies);
            slice.errors.extend(done.slice.errors);
            in_time += done.in_time;
        }
        slice.rate = in_time as f64 / length.as_secs_f64();
        Ok(slice)
    }
}

/// The work of a task until the end of its slice.
struct Work {
    worker: Box<dyn Side>,
    slice: Slice,
    in_time: u64,
}

async fn work(mut worker: Box<dyn Side>, end: Instant) -> Work {
    let (mut slice, mut in_time) = (Slice::default(), 0);
    let mut began = Instant::now();
    while began < end {
        let outcome = worker.cycle().await;
        let done = Instant::now();
        match outcome {
            Ok(()) => {
                slice.record(done - began);
                in_time += u64::from(done <= end);
            }
            Err(error) => slice.errors.push(error.to_string()),
        }
        began = done;
    }
    Work { worker, slice, in_time }
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
        // They do not contend for one lock: there is no share of each.
        Ok(Slice { grants: Vec::new(), ..slice_of(names, length) })
    }
}
