//! What `forms` measures.

use clap::ValueEnum;

use crate::rounds::Pace;

/// A workload of `forms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One task, one name: acquire, release
    Uncontended,
    /// 64 tasks of one client on 64 names
    ManyNames,
    /// Two processes on one name: from the release in the one to the grant in the other
    HandOver,
    /// Eight processes on one name: how long each acquisition waits
    Processes,
    /// The same with 2 and with 32 processes; only if it is asked for
    Growth,
}

/// A workload with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// So many tasks of one client, each on a name of its own.
    Cycles {
        names: usize,
    },
    HandOver,
    Processes {
        processes: usize,
    },
}

impl Workload {
    /// Those that are measured without being asked for.
    pub(super) const USUAL: [Workload; 4] =
        [Workload::Uncontended, Workload::ManyNames, Workload::HandOver, Workload::Processes];

    /// Returns what is measured of it, one after the other.
    pub(super) fn cases(self) -> Vec<Case> {
        match self {
            Workload::Uncontended => vec![Case::Cycles { names: 1 }],
            Workload::ManyNames => vec![Case::Cycles { names: 64 }],
            Workload::HandOver => vec![Case::HandOver],
            Workload::Processes => vec![Case::Processes { processes: 8 }],
            Workload::Growth => [2, 32].map(|processes| Case::Processes { processes }).to_vec(),
        }
    }
}

impl Case {
    pub(super) fn pace(self) -> Pace {
        match self {
            Case::Cycles { .. } | Case::HandOver => Pace::QUICK,
            Case::Processes { .. } => Pace::STARVED,
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Case::Cycles { names: 1 } => f.write_str("uncontended"),
            Case::Cycles { names } => write!(f, "names={names}"),
            Case::HandOver => f.write_str("hand-over"),
            Case::Processes { processes } => write!(f, "processes={processes}"),
        }
    }
}
