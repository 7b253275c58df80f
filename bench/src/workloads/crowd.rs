//! `crowd`: many tasks of one client wait for a few names. It measures how much memory each takes, and how soon the
//! next one has a lock after its release. Only one lock at a time is handed on, so no task waits for the processor.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::tally::Slice;
use crate::workloads::hand_over::rate;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// For how many names the tasks wait.
const NAMES: usize = 100;
/// How many tasks there are, unless the command line says it.
pub(crate) const TASKS: usize = 100_000;

/// A process in which the tasks are: what other measurements have left in this process's memory does not count.
pub(crate) struct Crowd {
    process: OtherProcess,
    tasks: usize,
    /// By how much the process has grown for them.
    grown: Option<u64>,
}

impl Crowd {
    pub(crate) async fn new(url: &str, name: &str, tasks: usize) -> Outcome<Crowd> {
        let mut process = OtherProcess::start(Kind::Ours, url, name).await?;
        let grown = process.queue(NAMES.min(tasks), tasks).await?;
        Ok(Crowd { process, tasks, grown })
    }
}

#[async_trait]
impl Measurement for Crowd {
    /// The rate is that of the hand-overs if nothing else were done.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let latencies = self.process.hand_on(length).await?;
        Ok(slice_of(latencies, self.grown, self.tasks))
    }

    async fn end(mut self: Box<Self>) -> Outcome<()> {
        self.process.order(Order::LetGo).await
    }
}

fn slice_of(latencies: Vec<u64>, grown: Option<u64>, tasks: usize) -> Slice {
    let mut slice = Slice { latencies, ..Slice::default() };
    slice.rate = rate(&slice);
    slice.extra.extend(grown.map(|grown| ("bytes_per_task", grown as f64 / tasks as f64)));
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_by_the_tasks_and_time_by_the_hand_overs() {
        let slice = slice_of(vec![1_000_000, 3_000_000], Some(3_000), 2);
        assert_eq!((slice.rate, &slice.extra[..]), (500.0, &[("bytes_per_task", 1_500.0)][..]));
        assert_eq!(slice_of(vec![], None, 2).extra, []);
    }
}
