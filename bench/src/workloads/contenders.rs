//! `one-name` and `processes`: contenders on one name, in one other process or in several. Each acquires, releases, and
//! acquires again. It measures how long each waits, and how evenly the lock is shared among them.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::Counter;
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side, Subject};
use crate::tally::Slice;
use crate::workloads::messages::{Order, Turns};
use crate::workloads::other_process::OtherProcess;

/// The contenders of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contention {
    pub(crate) contenders: usize,
    /// Each holds the lock for so long, and then leaves it to the others for as long.
    pub(crate) moment: Duration,
}

pub(crate) struct Contenders {
    processes: Vec<OtherProcess>,
    each: Contention,
    /// Counts the server's requests, where the server does.
    counter: Option<Counter>,
}

impl Contenders {
    pub(crate) async fn new(
        backend: Backend,
        url: &str,
        name: &str,
        processes: usize,
        each: Contention,
    ) -> Outcome<Contenders> {
        let mut all = Vec::new();
        for _ in 0..processes {
            all.push(OtherProcess::start(Kind::Ours, url, name).await?);
        }
        // A server that was there already may not count.
        Ok(Contenders { processes: all, each, counter: Counter::of(backend, url).await.ok() })
    }

    async fn requests(&mut self) -> Outcome<Option<u64>> {
        match &mut self.counter {
            Some(counter) => Ok(Some(counter.read().await?)),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Measurement for Contenders {
    /// The rate is that of the grants within the slice: those of the waits that were under way at its end are later.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let before = self.requests().await?;
        for process in &mut self.processes {
            process.tell(Order::Compete(self.each, length)).await?;
        }
        let mut turns = Vec::new();
        for process in &mut self.processes {
            match process.competed().await {
                Ok(competed) => turns.extend(competed),
                Err(error) => {
                    // Its contenders keep their places in the order, without grants.
                    let failed = Turns { error: Some(error.to_string()), ..Turns::default() };
                    let others = vec![Turns::default(); self.each.contenders - 1];
                    turns.extend(std::iter::once(failed).chain(others));
                }
            }
        }
        let after = self.requests().await?;
        let mut slice = slice_of(turns, length);
        let grants = slice.latencies.len();
        if let Some((before, after)) = before.zip(after).filter(|_| grants > 0) {
            slice.extra.push(("requests_per_hand_over", after.saturating_sub(before) as f64 / grants as f64));
        }
        Ok(slice)
    }

    async fn end(self: Box<Self>) -> Outcome<()> {
        match self.counter {
            Some(counter) => counter.end().await,
            None => Ok(()),
        }
    }
}

pub(super) fn slice_of(contenders: Vec<Turns>, length: Duration) -> Slice {
    let mut slice = Slice::default();
    for Turns { in_time, waits, error } in contenders {
        slice.grants.push(in_time);
        slice.latencies.extend(waits);
        slice.errors.extend(error);
    }
    slice.rate = slice.grants.iter().sum::<u64>() as f64 / length.as_secs_f64();
    slice
}

/// The contenders of this process, which share its connections.
#[derive(Default)]
pub(super) struct Crowd(Vec<Box<dyn Side>>);

impl Crowd {
    /// Returns what each contender did, in the same order each time.
    pub(super) async fn compete(
        &mut self,
        subject: &dyn Subject,
        name: &str,
        Contention { contenders, moment }: Contention,
        length: Duration,
    ) -> Outcome<Vec<Turns>> {
        while self.0.len() < contenders {
            self.0.push(subject.side(name).await?);
        }
        let (end, mut tasks) = (Instant::now() + length, JoinSet::new());
        for (nth, mut side) in self.0.drain(..).enumerate() {
            tasks.spawn(async move {
                let mut turns = Turns::default();
                let outcome = take_turns(side.as_mut(), &mut turns, moment, end).await;
                turns.error = outcome.err().map(|error| error.to_string());
                (nth, side, turns)
            });
        }
        let mut all = tasks.join_all().await;
        all.sort_by_key(|(nth, ..)| *nth);
        let (sides, turns) = all.into_iter().map(|(_, side, turns)| (side, turns)).unzip();
        self.0 = sides;
        Ok(turns)
    }
}

async fn take_turns(side: &mut dyn Side, turns: &mut Turns, moment: Duration, end: Instant) -> Outcome<()> {
    let mut asked = Instant::now();
    while asked < end {
        side.acquire().await?;
        turns.granted(asked, end);
        if !moment.is_zero() {
            tokio::time::sleep(moment).await;
        }
        side.release().await?;
        if !moment.is_zero() {
            tokio::time::sleep(moment).await;
        }
        asked = Instant::now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_counts_each_contenders_grants_in_time() {
        let turns = |in_time, waits: &[u64]| Turns { in_time, waits: waits.to_vec(), error: None };
        let slice = slice_of(vec![turns(2, &[10, 20, 30]), turns(1, &[40])], Duration::from_millis(500));
        assert_eq!((slice.rate, &slice.grants[..], slice.latencies.len()), (6.0, &[2, 1][..], 4));
    }

    #[tokio::test]
    async fn contenders_of_one_process_share_a_lock() {
        let subject = Kind::Ours.connect("memory://").await.unwrap();
        let contention = Contention { contenders: 3, moment: Duration::ZERO };
        let (mut crowd, mut granted, began) = (Crowd::default(), [0; 3], Instant::now());
        // A machine that stands still leaves too little of one slice.
        while granted.contains(&0) {
            assert!(began.elapsed() < Duration::from_secs(10), "{granted:?}");
            let slice = Duration::from_millis(50);
            let turns =
                crowd.compete(subject.as_ref(), "lock-bench:contenders", contention, slice).await.unwrap();
            assert_eq!(turns.len(), 3);
            granted.iter_mut().zip(&turns).for_each(|(all, turns)| *all += turns.in_time);
        }
    }
}
