//! The protocol between the processes of a workload: orders and replies, one per line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Outcome;
use crate::workloads::turns::Turns;

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
}

/// A reply of the other process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Ready,
    /// It was granted the lock at this moment.
    Granted(Duration),
    /// It began to release the lock at this moment.
    Released(Duration),
    /// How long each acquisition waited, in nanoseconds.
    Waited(Vec<u64>),
    /// What each of its contenders did, or the cycles of each of its names.
    Competed(Vec<Turns>),
    /// How many cycles its loops did.
    Looped(u64),
    Failed(String),
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
        }
    }
}

impl FromStr for Order {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Outcome<Order> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "acquire" => Ok(Order::Acquire),
            "release" => Ok(Order::Release),
            "contend" => Ok(Order::Contend(nanos(rest)?)),
            "hold" => Ok(Order::Hold(nanos(rest)?)),
            "compete" => {
                let (contenders, length) = rest.split_once(' ').ok_or("compete for how long?")?;
                Ok(Order::Compete { contenders: contenders.parse()?, length: nanos(length)? })
            }
            "gather" => Ok(Order::Gather(rest.parse()?)),
            "wait-all" => Ok(Order::WaitAll),
            "leave" => Ok(Order::Leave),
            "loop" => Ok(Order::Loop(nanos(rest)?)),
            "cycle" => Ok(Order::Cycle(nanos(rest)?)),
            _ => Err(format!("unknown order: {text:?}").into()),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ready => f.write_str("ready"),
            Reply::Granted(at) => write!(f, "granted {}", at.as_nanos()),
            Reply::Released(at) => write!(f, "released {}", at.as_nanos()),
            Reply::Waited(waits) => {
                f.write_str("waited")?;
                waits.iter().try_for_each(|wait| write!(f, " {wait}"))
            }
            Reply::Competed(contenders) => {
                f.write_str("competed")?;
                contenders.iter().try_for_each(|turns| write_turns(f, turns))
            }
            Reply::Looped(cycles) => write!(f, "looped {cycles}"),
            Reply::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl FromStr for Reply {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Outcome<Reply> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "ready" => Ok(Reply::Ready),
            "granted" => Ok(Reply::Granted(nanos(rest)?)),
            "released" => Ok(Reply::Released(nanos(rest)?)),
            "waited" => Ok(Reply::Waited(rest.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)),
            "competed" => Ok(Reply::Competed(rest.split_whitespace().map(turns).collect::<Outcome<_>>()?)),
            "looped" => Ok(Reply::Looped(rest.parse()?)),
            "failed" => Ok(Reply::Failed(rest.to_owned())),
            _ => Err(format!("unknown reply: {text:?}").into()),
        }
    }
}

/// ` 2:10,20,30`: two grants in time, and three waits.
fn write_turns(f: &mut fmt::Formatter<'_>, turns: &Turns) -> fmt::Result {
    write!(f, " {}:", turns.in_time)?;
    let mut separator = "";
    for wait in &turns.waits {
        write!(f, "{separator}{wait}")?;
        separator = ",";
    }
    Ok(())
}

fn turns(text: &str) -> Outcome<Turns> {
    let (in_time, waits) = text.split_once(':').ok_or("a contender without waits")?;
    let waits = waits.split(',').filter(|wait| !wait.is_empty()).map(str::parse);
    Ok(Turns { in_time: in_time.parse()?, waits: waits.collect::<Result<_, _>>()?, error: None })
}

fn nanos(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_nanos(text.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let nanos = Duration::from_nanos(5);
        for reply in [
            Reply::Ready,
            Reply::Granted(nanos),
            Reply::Released(nanos),
            Reply::Waited(vec![3, 40]),
            Reply::Waited(vec![]),
            Reply::Competed(vec![
                Turns { in_time: 2, waits: vec![10, 20, 30], error: None },
                Turns { in_time: 0, waits: vec![], error: None },
            ]),
            Reply::Looped(7),
            Reply::Failed("a b".into()),
        ] {
            assert_eq!(reply.to_string().parse::<Reply>().unwrap(), reply);
        }
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
        ] {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
        for bad in ["", "granted", "granted x", "acquire"] {
            assert!(bad.parse::<Reply>().is_err(), "{bad:?}");
        }
        assert!("gather".parse::<Order>().is_err());
    }
}
