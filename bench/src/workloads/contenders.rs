//! `one-name`: contenders on one name, in this process or in several others. Each acquires, releases at once, and
//! acquires again. It measures how long each waits, and how evenly the lock is shared among them.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::{Counter, Feeds};
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side, Subject};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;
use crate::workloads::turns::Turns;

/// The contenders of one subject.
pub(crate) struct Contenders {
    place: Place,
    /// Counts the server's requests, where the server does.
    counter: Option<Counter>,
}

enum Place {
    Here(Crowd),
    /// The processes, and how many contenders there are in each.
    Elsewhere(Vec<OtherProcess>, usize),
}

impl Contenders {
    /// Starts the contenders in this process, or in as many others as `processes` says if it is more than one.
    pub(crate) async fn new(
        kind: Kind,
        backend: Backend,
        url: &str,
        name: &str,
        contenders: usize,
        processes: usize,
    ) -> Outcome<Contenders> {
        let place = if processes == 1 {
            let subject = kind.connect(url).await?;
            Place::Here(Crowd::of(subject.as_ref(), name, contenders).await?)
        } else {
            let mut others = Vec::new();
            for _ in 0..processes {
                others.push(OtherProcess::start(kind, url, name).await?);
            }
            Place::Elsewhere(others, contenders / processes)
        };
        let counter = match backend {
            Backend::Memory | Backend::Sqlite => None,
            // A server that was there already may not count.
            _ => Counter::of(backend, url).await.ok(),
        };
        Ok(Contenders { place, counter })
    }

    async fn requests(&mut self) -> Outcome<Option<u64>> {
        match &mut self.counter {
            Some(counter) => Ok(Some(counter.read(Feeds::LeftOut).await?)),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Measurement for Contenders {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let before = self.requests().await?;
        let turns = match &mut self.place {
            Place::Here(crowd) => crowd.compete(length).await?,
            Place::Elsewhere(processes, each) => compete_elsewhere(processes, *each, length).await?,
        };
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

async fn compete_elsewhere(
    processes: &mut [OtherProcess],
    each: usize,
    length: Duration,
) -> Outcome<Vec<Turns>> {
    for process in processes.iter_mut() {
        process.tell(Order::Compete { contenders: each, length }).await?;
    }
    let mut turns = Vec::new();
    for process in processes {
        match process.competed().await {
            Ok(competed) => turns.extend(competed),
            Err(error) => {
                // Its contenders keep their places in the order, without grants.
                let failed = Turns { error: Some(error.to_string()), ..Turns::default() };
                turns.extend(std::iter::once(failed).chain(vec![Turns::default(); each - 1]));
            }
        }
    }
    Ok(turns)
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

/// Contenders of one process, which share its connections.
#[derive(Default)]
pub(super) struct Crowd {
    sides: Vec<Box<dyn Side>>,
}

impl Crowd {
    pub(super) async fn of(subject: &dyn Subject, name: &str, contenders: usize) -> Outcome<Crowd> {
        let mut sides = Vec::new();
        for _ in 0..contenders {
            sides.push(subject.side(name).await?);
        }
        Ok(Crowd { sides })
    }

    pub(super) fn len(&self) -> usize {
        self.sides.len()
    }

    /// Returns what each contender did, in the same order each time.
    pub(super) async fn compete(&mut self, length: Duration) -> Outcome<Vec<Turns>> {
        let end = Instant::now() + length;
        let mut tasks = JoinSet::new();
        for (nth, side) in self.sides.drain(..).enumerate() {
            tasks.spawn(async move { (nth, compete(side, end).await) });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let (nth, (side, turns)) = ended?;
            all.push((nth, side, turns));
        }
        all.sort_by_key(|(nth, ..)| *nth);
        let (sides, turns) = all.into_iter().map(|(_, side, turns)| (side, turns)).unzip();
        self.sides = sides;
        Ok(turns)
    }
}

async fn compete(mut side: Box<dyn Side>, end: Instant) -> (Box<dyn Side>, Turns) {
    let mut turns = Turns::default();
    if let Err(error) = take_turns(side.as_mut(), &mut turns, end).await {
        turns.error = Some(error.to_string());
    }
    (side, turns)
}

async fn take_turns(side: &mut dyn Side, turns: &mut Turns, end: Instant) -> Outcome<()> {
    let mut asked = Instant::now();
    while asked < end {
        side.acquire().await?;
        turns.granted(asked, end);
        side.release().await?;
        asked = Instant::now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_counts_what_each_contender_was_granted_in_time() {
        let turns = |in_time, waits: &[u64]| Turns { in_time, waits: waits.to_vec(), error: None };
        let slice = slice_of(vec![turns(2, &[10, 20, 30]), turns(1, &[40])], Duration::from_millis(500));
        assert_eq!((slice.rate, &slice.grants[..], slice.latencies.len()), (6.0, &[2, 1][..], 4));
    }

    #[tokio::test]
    async fn contenders_of_one_process_share_a_lock() {
        let subject = Kind::Ours.connect("memory://").await.unwrap();
        let mut crowd = Crowd::of(subject.as_ref(), "lock-bench:contenders", 3).await.unwrap();
        let (mut granted, began) = ([0; 3], Instant::now());
        // A machine that stands still leaves too little of one slice.
        while granted.contains(&0) {
            assert!(began.elapsed() < Duration::from_secs(10), "{granted:?}");
            let turns = crowd.compete(Duration::from_millis(50)).await.unwrap();
            assert_eq!((turns.len(), crowd.len()), (3, 3));
            granted.iter_mut().zip(&turns).for_each(|(all, turns)| *all += turns.in_time);
        }
    }
}
