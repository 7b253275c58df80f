//! The cases of a run: workloads with their parameters.

use std::fmt::{self, Display};
use std::time::Duration;

use crate::Outcome;
use crate::rounds::Pace;
use crate::subjects::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Tasks of one client, each on a name of its own: acquire, release.
    OwnNames { tasks: usize },
    /// Contenders on one name, in this process or in several others. Each releases as soon as it has the lock.
    OneName { contenders: usize, processes: usize },
    /// Two processes on one name: from the release in the one to the grant in the other.
    HandOver,
    /// Eight processes on one name, which hold it for a millisecond and pause for as long: how long each waits.
    Processes,
    /// Where waiters have to poll: how long after a release they are granted the lock.
    Delay,
    /// On Redlock: one task, one name, while one of the servers is dead, or takes requests and answers none.
    OneLost,
    /// Many locks that one client of another process holds and renews: what that costs.
    Held { locks: usize },
    /// The claims of docs/claims.md, tried on the schemes of texts and on the library.
    Claims,
    /// A holder is killed (-9): how long until a waiter has the lock.
    Recovery,
    /// A member of a cluster is killed (-9): how long until a lock is granted again, and what becomes of held ones.
    Failover,
}

/// All cases, in the order in which they are measured, each with its time in a quick run and in a thorough one, in
/// milliseconds. A quick run leaves out those without a time.
const ALL: [(Case, Option<u64>, u64); 20] = [
    (Case::OwnNames { tasks: 1 }, Some(1_000), 12_000),
    (Case::OwnNames { tasks: 8 }, Some(1_000), 12_000),
    (Case::OwnNames { tasks: 64 }, Some(1_000), 12_000),
    (Case::OwnNames { tasks: 512 }, Some(1_500), 12_000),
    (Case::OneName { contenders: 8, processes: 1 }, Some(1_200), 12_000),
    (Case::OneName { contenders: 64, processes: 1 }, Some(2_800), 12_000),
    (Case::OneName { contenders: 2, processes: 2 }, Some(1_200), 12_000),
    (Case::OneName { contenders: 8, processes: 8 }, Some(1_200), 12_000),
    (Case::OneName { contenders: 32, processes: 32 }, None, 12_000),
    (Case::OneName { contenders: 64, processes: 8 }, Some(2_800), 12_000),
    (Case::HandOver, Some(1_000), 12_000),
    (Case::Processes, None, 15_000),
    (Case::Delay, Some(4_000), 16_000),
    (Case::OneLost, Some(1_500), 12_000),
    (Case::Held { locks: 1_000 }, Some(2_000), 10_000),
    (Case::Held { locks: 10_000 }, None, 10_000),
    (Case::Held { locks: 100_000 }, None, 10_000),
    // These take as long as they take.
    (Case::Claims, Some(1_000), 1_000),
    (Case::Recovery, Some(2_000), 20_000),
    (Case::Failover, Some(100), 20_000),
];

impl Case {
    pub(crate) fn all() -> impl Iterator<Item = Case> {
        ALL.into_iter().map(|(case, ..)| case)
    }

    /// Returns how long it is measured; `None` if a quick run leaves it out.
    pub(crate) fn length(self, speed: Speed) -> Option<Duration> {
        let (_, quick, thorough) = ALL.into_iter().find(|(case, ..)| *case == self)?;
        let millis = if speed == Speed::Quick { quick } else { Some(thorough) };
        millis.map(Duration::from_millis)
    }

    pub(crate) fn workload(self) -> &'static str {
        match self {
            Case::OwnNames { .. } => "own-names",
            Case::OneName { .. } => "one-name",
            Case::HandOver => "hand-over",
            Case::Processes => "processes",
            Case::Delay => "delay",
            Case::OneLost => "one-lost",
            Case::Held { .. } => "held",
            Case::Claims => "claims",
            Case::Recovery => "recovery",
            Case::Failover => "failover",
        }
    }

    /// Returns the subject with which the others are compared, unless that is another library's.
    pub(crate) fn base(self) -> Kind {
        if self == Case::OneLost { Kind::Ours } else { Kind::Baseline }
    }

    pub(crate) fn pace(self) -> Pace {
        match self {
            Case::OwnNames { tasks: 512.. } | Case::OneName { contenders: 64.., .. } => Pace::CROWDED,
            Case::OwnNames { .. } | Case::OneName { .. } | Case::HandOver | Case::OneLost => Pace::QUICK,
            Case::Processes => Pace::STARVED,
            _ => Pace::WHOLE,
        }
    }
}

impl Display for Case {
    /// `own-names tasks=8`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workload())?;
        match self {
            Case::OwnNames { tasks } => write!(f, " tasks={tasks}"),
            Case::OneName { contenders, processes } => {
                write!(f, " contenders={contenders} processes={processes}")
            }
            Case::Held { locks } => write!(f, " locks={locks}"),
            _ => Ok(()),
        }
    }
}

/// A run is quick or thorough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    Quick,
    Thorough,
}

/// Returns the cases that `--workload` asks for, or all of them. An unknown name is an error.
pub(crate) fn asked_for(names: &[String]) -> Outcome<Vec<Case>> {
    let is_it = |case: &Case, name: &str| case.workload() == name || case.to_string() == name;
    if let Some(name) = names.iter().find(|name| !Case::all().any(|case| is_it(&case, name))) {
        let mut known: Vec<&str> = Case::all().map(Case::workload).collect();
        known.dedup();
        return Err(format!("there is no workload {name:?}, but: {}", known.join(", ")).into());
    }
    Ok(Case::all().filter(|case| names.is_empty() || names.iter().any(|name| is_it(case, name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_a_workload_or_one_case() {
        let count = |name: &str| asked_for(&[name.to_owned()]).map(|cases| cases.len()).ok();
        assert_eq!((count("hand-over"), count("own-names tasks=64"), count("own")), (Some(1), Some(1), None));
        assert!(count("own-names") > Some(3));
        assert_eq!(asked_for(&[]).unwrap().len(), ALL.len());
    }
}
