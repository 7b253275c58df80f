//! The messages between this program and a process of a workload: an order, and its reply, in a line each.
//!
//! This program's own processes write JSON. The drivers of other libraries write words (bench/peers/README.md), and know
//! a part of the messages only.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::workloads::held::Idle;

/// An order to the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    Acquire,
    /// Release whatever it holds.
    Release,
    /// Acquire and release in turn with so many tasks, for this long. Each holds the lock for a moment, and then leaves it
    /// to the others for as long.
    Compete {
        contenders: usize,
        moment: Duration,
        length: Duration,
    },
    /// Acquire and release all names at the same time, each again and again, for this long.
    Cycle(Duration),
    /// Acquire this many locks of this ttl with one client, and hold them, renewing them.
    Hold {
        locks: usize,
        ttl: Duration,
    },
    /// Do nothing but hold them, for this long.
    Watch(Duration),
}

/// A reply of the other process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    Ready,
    /// It was granted the lock at this moment.
    Granted(Duration),
    /// It began to release the lock at this moment.
    Released(Duration),
    /// The turns of each of its contenders, or the cycles of each of its names.
    Competed(Vec<Turns>),
    Watched(Idle),
    Failed(String),
}

impl Order {
    /// Returns the order as a driver reads it, if drivers know it.
    pub(super) fn for_driver(self) -> Outcome<String> {
        match self {
            Order::Acquire => Ok("acquire".to_owned()),
            Order::Release => Ok("release".to_owned()),
            Order::Cycle(length) => Ok(format!("cycle {}", length.as_nanos())),
            other => Err(format!("drivers don't know {other:?}").into()),
        }
    }
}

impl Reply {
    /// Reads what a driver has written.
    pub(super) fn of_driver(line: &str) -> Outcome<Reply> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let at = || Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Duration::from_nanos(rest.parse()?));
        match word {
            "ready" => Ok(Reply::Ready),
            "granted" => Ok(Reply::Granted(at()?)),
            "released" => Ok(Reply::Released(at()?)),
            "competed" => {
                Ok(Reply::Competed(rest.split_whitespace().map(Turns::of_driver).collect::<Outcome<_>>()?))
            }
            "failed" => Ok(Reply::Failed(rest.to_owned())),
            _ => Err(format!("unknown reply: {line:?}").into()),
        }
    }
}

/// The turns of one contender in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turns {
    /// The number of grants within the slice.
    pub(super) in_time: u64,
    /// The wait of each acquisition in nanoseconds, including the one that was under way at the end.
    pub(super) waits: Vec<u64>,
    /// The reason why it gave up before the end.
    pub(super) error: Option<String>,
}

impl Turns {
    /// Counts a grant that has just come, and returns when. It was asked for at `asked`, and the slice is over at `end`.
    pub(super) fn granted(&mut self, asked: Instant, end: Instant) -> Instant {
        let now = Instant::now();
        self.waits.push(u64::try_from((now - asked).as_nanos()).unwrap_or(u64::MAX));
        self.in_time += u64::from(now <= end);
        now
    }

    /// Reads `2:10,20,30`: two grants in time, and three waits.
    fn of_driver(text: &str) -> Outcome<Turns> {
        let (in_time, waits) = text.split_once(':').ok_or("a contender without waits")?;
        let waits = waits.split(',').filter(|wait| !wait.is_empty()).map(str::parse);
        Ok(Turns { in_time: in_time.parse()?, waits: waits.collect::<Result<_, _>>()?, error: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_read_and_write_words() {
        let nanos = Duration::from_nanos(5);
        assert_eq!(Order::Cycle(nanos).for_driver().unwrap(), "cycle 5");
        assert!(Order::Watch(nanos).for_driver().is_err());
        let of = |line| Reply::of_driver(line).ok();
        assert_eq!((of("ready"), of("granted 5")), (Some(Reply::Ready), Some(Reply::Granted(nanos))));
        let turns = |in_time, waits: &[u64]| Turns { in_time, waits: waits.to_vec(), error: None };
        let competed = Reply::Competed(vec![turns(2, &[10, 20, 30]), turns(0, &[])]);
        assert_eq!(of("competed 2:10,20,30 0:"), Some(competed));
        assert_eq!((of("granted x"), of("acquire"), of("competed 2")), (None, None, None));
    }

    #[test]
    fn a_grant_after_the_slice_is_not_counted() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.granted(now, now + Duration::from_secs(60));
        while Instant::now() == now {}
        turns.granted(now, now);
        assert_eq!((turns.in_time, turns.waits.len()), (1, 2));
    }
}
