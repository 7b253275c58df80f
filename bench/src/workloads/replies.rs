//! What a process of a workload answers when it has done what it was told, a reply on each line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Outcome;
use crate::hold::Idle;
use crate::workloads::turns::Turns;

/// A reply of the other process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Ready,
    /// It was granted the lock at this moment.
    Granted(Duration),
    /// It began to release the lock at this moment.
    Released(Duration),
    /// What each of its contenders did, or the cycles of each of its names.
    Competed(Vec<Turns>),
    /// How many cycles its loops did.
    Looped(u64),
    /// It holds many locks.
    Holding {
        took: Duration,
        /// By how many bytes of resident memory it has grown, if the system tells that.
        grown: Option<u64>,
    },
    /// What it did while it only held them.
    Watched(Idle),
    /// Its tasks wait; by how many bytes of resident memory it has grown for them.
    Queued(Option<u64>),
    /// How long each took from before a release to the next task's grant, in nanoseconds.
    HandedOn(Vec<u64>),
    Failed(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ready => f.write_str("ready"),
            Reply::Granted(at) => write!(f, "granted {}", at.as_nanos()),
            Reply::Released(at) => write!(f, "released {}", at.as_nanos()),
            Reply::Competed(contenders) => {
                f.write_str("competed")?;
                contenders.iter().try_for_each(|turns| write_turns(f, turns))
            }
            Reply::Looped(cycles) => write!(f, "looped {cycles}"),
            Reply::Holding { took, grown } => write!(f, "holding {} {}", took.as_nanos(), or_dash(*grown)),
            Reply::Watched(idle) => write_idle(f, idle),
            Reply::Queued(grown) => write!(f, "queued {}", or_dash(*grown)),
            Reply::HandedOn(latencies) => {
                f.write_str("handed-on")?;
                latencies.iter().try_for_each(|latency| write!(f, " {latency}"))
            }
            Reply::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl FromStr for Reply {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Outcome<Reply> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let words = rest.split_whitespace();
        match word {
            "ready" => Ok(Reply::Ready),
            "granted" => Ok(Reply::Granted(nanos(rest)?)),
            "released" => Ok(Reply::Released(nanos(rest)?)),
            "competed" => Ok(Reply::Competed(words.map(turns).collect::<Outcome<_>>()?)),
            "looped" => Ok(Reply::Looped(rest.parse()?)),
            "holding" => {
                let (took, grown) = rest.split_once(' ').ok_or("holding, without its memory")?;
                Ok(Reply::Holding { took: nanos(took)?, grown: unless_dash(grown)? })
            }
            "watched" => idle(rest).map(Reply::Watched),
            "queued" => Ok(Reply::Queued(unless_dash(rest)?)),
            "handed-on" => Ok(Reply::HandedOn(words.map(str::parse).collect::<Result<_, _>>()?)),
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

/// `watched LENGTH CPU RENEWALS LOSSES EXPIRED TROUBLES`
fn write_idle(f: &mut fmt::Formatter<'_>, idle: &Idle) -> fmt::Result {
    let Idle { length, cpu, renewals, losses, expired, troubles } = idle;
    let cpu = or_dash(cpu.map(|cpu| cpu.as_nanos()));
    write!(f, "watched {} {cpu} {renewals} {losses} {expired} {troubles}", length.as_nanos())
}

fn idle(text: &str) -> Outcome<Idle> {
    let words: Vec<&str> = text.split(' ').collect();
    let [length, cpu, renewals, losses, expired, troubles] = words[..] else {
        return Err(format!("these are not six numbers: {text:?}").into());
    };
    Ok(Idle {
        length: nanos(length)?,
        cpu: unless_dash(cpu)?.map(Duration::from_nanos),
        renewals: renewals.parse()?,
        losses: losses.parse()?,
        expired: expired.parse()?,
        troubles: troubles.parse()?,
    })
}

/// What a system does not tell is a dash.
fn or_dash(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn unless_dash(text: &str) -> Outcome<Option<u64>> {
    match text {
        "-" => Ok(None),
        number => Ok(Some(number.parse()?)),
    }
}

fn nanos(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_nanos(text.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_is_understood() {
        let nanos = Duration::from_nanos(5);
        let idle = Idle { length: nanos, cpu: Some(nanos), renewals: 1, losses: 2, expired: 3, troubles: 4 };
        for reply in [
            Reply::Ready,
            Reply::Granted(nanos),
            Reply::Released(nanos),
            Reply::Competed(vec![
                Turns { in_time: 2, waits: vec![10, 20, 30], error: None },
                Turns { in_time: 0, waits: vec![], error: None },
            ]),
            Reply::Looped(7),
            Reply::Holding { took: nanos, grown: Some(9) },
            Reply::Holding { took: nanos, grown: None },
            Reply::Watched(idle),
            Reply::Watched(Idle { cpu: None, ..idle }),
            Reply::Queued(Some(9)),
            Reply::Queued(None),
            Reply::HandedOn(vec![3, 40]),
            Reply::HandedOn(vec![]),
            Reply::Failed("a b".into()),
        ] {
            assert_eq!(reply.to_string().parse::<Reply>().unwrap(), reply);
        }
        for bad in ["", "granted", "granted x", "acquire", "watched 1 2 3", "queued"] {
            assert!(bad.parse::<Reply>().is_err(), "{bad:?}");
        }
    }
}
