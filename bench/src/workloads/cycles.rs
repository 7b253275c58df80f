//! `own-names`: tasks that acquire and release for as long as a slice lasts.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::{Side, Subject};
use crate::tally::Slice;

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
