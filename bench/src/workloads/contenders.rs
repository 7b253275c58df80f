//! `one-name` and `processes`: contenders on one name, in one other process or in several. Each acquires, releases, and
//! acquires again. It measures how long each waits, and how evenly the lock is shared among them.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::Counter;
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side};
use crate::tally::Slice;
use crate::workloads::messages::{Order, Turns};
use crate::workloads::other_process::OtherProcess;

pub(crate) struct Contenders {
    processes: Vec<OtherProcess>,
    /// The contenders of one process.
    each: usize,
    /// Each holds the lock for so long, and then leaves it to the others for as long.
    moment: Duration,
    /// Counts the server's requests, where the server does.
    counter: Option<Counter>,
}

impl Contenders {
    pub(crate) async fn new(
        backend: Backend,
        url: &str,
        name: &str,
        processes: usize,
        each: usize,
        moment: Duration,
    ) -> Outcome<Contenders> {
        let mut all = Vec::new();
        for _ in 0..processes {
            all.push(OtherProcess::start(Kind::Ours, url, name).await?);
        }
        // A server that was there already may not count.
        Ok(Contenders { processes: all, each, moment, counter: Counter::of(backend, url).await.ok() })
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
            process.tell(Order::Compete { contenders: self.each, moment: self.moment, length }).await?;
        }
        let mut turns = Vec::new();
        for process in &mut self.processes {
            match process.competed().await {
                Ok(competed) => turns.extend(competed),
                Err(error) => {
                    // Its contenders keep their places in the order, without grants.
                    let failed = Turns { error: Some(error.to_string()), ..Turns::default() };
                    let others = vec![Turns::default(); self.each - 1];
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

/// A turn of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Acquire and release, which is timed.
    Cycle,
    /// Acquire, which is timed; hold the lock for so long, release it, and leave it to the others for as long.
    Hold(Duration),
}

/// Lets the sides take turns at the same time until the end of the slice. Returns what each did, in their order.
pub(super) async fn take_turns(sides: &mut Vec<Box<dyn Side>>, turn: Turn, length: Duration) -> Vec<Turns> {
    let (end, mut tasks) = (Instant::now() + length, JoinSet::new());
    for (nth, mut side) in sides.drain(..).enumerate() {
        tasks.spawn(async move {
            let mut turns = Turns::default();
            let outcome = until(end, side.as_mut(), turn, &mut turns).await;
            turns.error = outcome.err().map(|error| error.to_string());
            (nth, side, turns)
        });
    }
    let mut all = tasks.join_all().await;
    all.sort_by_key(|(nth, ..)| *nth);
    let (back, turns) = all.into_iter().map(|(_, side, turns)| (side, turns)).unzip();
    *sides = back;
    turns
}

async fn until(end: Instant, side: &mut dyn Side, turn: Turn, turns: &mut Turns) -> Outcome<()> {
    let mut asked = Instant::now();
    while asked < end {
        asked = match turn {
            Turn::Cycle => {
                side.cycle().await?;
                turns.granted(asked, end)
            }
            Turn::Hold(moment) => {
                side.acquire().await?;
                turns.granted(asked, end);
                pass(moment).await;
                side.release().await?;
                pass(moment).await;
                Instant::now()
            }
        }
    }
    Ok(())
}

async fn pass(moment: Duration) {
    if !moment.is_zero() {
        tokio::time::sleep(moment).await;
    }
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
        let (mut sides, mut granted, began) = (Vec::new(), [0; 3], Instant::now());
        for _ in 0..3 {
            sides.push(subject.side("lock-bench:contenders").await.unwrap());
        }
        // A machine that stands still leaves too little of one slice.
        while granted.contains(&0) {
            assert!(began.elapsed() < Duration::from_secs(10), "{granted:?}");
            let slice = Duration::from_millis(50);
            let turns = take_turns(&mut sides, Turn::Hold(Duration::ZERO), slice).await;
            assert_eq!(turns.len(), 3);
            granted.iter_mut().zip(&turns).for_each(|(all, turns)| *all += turns.in_time);
        }
    }
}
