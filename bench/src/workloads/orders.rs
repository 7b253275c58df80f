//! What a process of a workload is told to do, an order on each line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Outcome;

/// An order to the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Acquire,
    Release,
    /// Acquire, hold, release, and again, for this long.
    Contend(Duration),
    /// Acquire with this ttl, and hold the lock, renewing it, until the process ends.
    Hold(Duration),
    /// Acquire and release in turn with as many tasks, for this long.
    Compete {
        contenders: usize,
        length: Duration,
    },
    /// Open this many clients, each with connections of its own.
    Gather(usize),
    /// Begin to wait for the lock with all of them.
    WaitAll,
    /// Stop all these waits.
    Leave,
    /// Take and release many names in as many loops, for this long.
    Loop(Duration),
    /// Acquire and release all of its names at the same time, each again and again, for this long.
    Cycle(Duration),
    /// Acquire this many locks of this ttl with one client, and hold them.
    HoldMany {
        locks: usize,
        ttl: Duration,
    },
    /// Do nothing but hold them, for this long.
    Watch(Duration),
    /// Hold this many names, and let this many tasks of the same client wait for them.
    Queue {
        names: usize,
        tasks: usize,
    },
    /// Release one of these names after the other, each to the next task that waits for it, for at most this long.
    HandOn(Duration),
    /// Stop all waits, and release all locks that it was told to hold.
    LetGo,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Acquire => f.write_str("acquire"),
            Order::Release => f.write_str("release"),
            Order::Contend(length) => write!(f, "contend {}", length.as_nanos()),
            Order::Hold(ttl) => write!(f, "hold {}", ttl.as_nanos()),
            Order::Compete { contenders, length } => write!(f, "compete {contenders} {}", length.as_nanos()),
            Order::Gather(clients) => write!(f, "gather {clients}"),
            Order::WaitAll => f.write_str("wait-all"),
            Order::Leave => f.write_str("leave"),
            Order::Loop(length) => write!(f, "loop {}", length.as_nanos()),
            Order::Cycle(length) => write!(f, "cycle {}", length.as_nanos()),
            Order::HoldMany { locks, ttl } => write!(f, "hold-many {locks} {}", ttl.as_nanos()),
            Order::Watch(length) => write!(f, "watch {}", length.as_nanos()),
            Order::Queue { names, tasks } => write!(f, "queue {names} {tasks}"),
            Order::HandOn(length) => write!(f, "hand-on {}", length.as_nanos()),
            Order::LetGo => f.write_str("let-go"),
        }
    }
}

impl FromStr for Order {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Outcome<Order> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let two = || rest.split_once(' ').ok_or_else(|| format!("{word}: two numbers are needed"));
        match word {
            "acquire" => Ok(Order::Acquire),
            "release" => Ok(Order::Release),
            "contend" => Ok(Order::Contend(nanos(rest)?)),
            "hold" => Ok(Order::Hold(nanos(rest)?)),
            "compete" => {
                let (contenders, length) = two()?;
                Ok(Order::Compete { contenders: contenders.parse()?, length: nanos(length)? })
            }
            "gather" => Ok(Order::Gather(rest.parse()?)),
            "wait-all" => Ok(Order::WaitAll),
            "leave" => Ok(Order::Leave),
            "loop" => Ok(Order::Loop(nanos(rest)?)),
            "cycle" => Ok(Order::Cycle(nanos(rest)?)),
            "hold-many" => {
                let (locks, ttl) = two()?;
                Ok(Order::HoldMany { locks: locks.parse()?, ttl: nanos(ttl)? })
            }
            "watch" => Ok(Order::Watch(nanos(rest)?)),
            "queue" => {
                let (names, tasks) = two()?;
                Ok(Order::Queue { names: names.parse()?, tasks: tasks.parse()? })
            }
            "hand-on" => Ok(Order::HandOn(nanos(rest)?)),
            "let-go" => Ok(Order::LetGo),
            _ => Err(format!("unknown order: {text:?}").into()),
        }
    }
}

fn nanos(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_nanos(text.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ordered_is_understood() {
        let nanos = Duration::from_nanos(5);
        for order in [
            Order::Acquire,
            Order::Release,
            Order::Contend(nanos),
            Order::Hold(nanos),
            Order::Compete { contenders: 8, length: nanos },
            Order::Gather(3),
            Order::WaitAll,
            Order::Leave,
            Order::Loop(nanos),
            Order::Cycle(nanos),
            Order::HoldMany { locks: 10, ttl: nanos },
            Order::Watch(nanos),
            Order::Queue { names: 2, tasks: 30 },
            Order::HandOn(nanos),
            Order::LetGo,
        ] {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
        for bad in ["", "gather", "queue 1", "hand-on x"] {
            assert!(bad.parse::<Order>().is_err(), "{bad:?}");
        }
    }
}
