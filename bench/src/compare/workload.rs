//! What is compared: the workloads, and the parameters with which each is measured.

use std::collections::BTreeMap;

use clap::ValueEnum;

/// A workload of `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Tasks of one client, each on a name of its own: acquire, release
    OwnNames,
    /// Cycles on a fixed schedule, at a share of the rate of the closed loop; latency counts from the intended start
    OpenLoop,
    /// Names that are each used once, one after the other: whether they cost more with their number, and what is left
    Names,
    /// Contenders on one name, in one process and in up to 32
    OneName,
    /// Two processes on one name: from the release in the one to the grant in the other
    HandOver,
    /// Where waiters have to poll: how long after a release they are granted the lock
    Delay,
    /// Processes that have waited for long: how many requests each sends to the server
    Waiting,
    /// On Redlock: one task, one name, while one of the servers is dead, or takes requests and answers none
    OneLost,
    /// One renewal after the other, alone and while 100 connections wait
    Renewal,
    /// Commits to an unrelated table, beside 64 loops that take and release locks
    Commits,
    /// Many locks that are held and renewed: what that costs
    Held,
    /// As own-names: how much CPU time the server uses for it
    ServerCpu,
    /// What is claimed of well-known schemes (docs/claims.md), tried on the schemes and on the library
    Claims,
    /// A holder is killed (-9): how long until a waiter has the lock
    Recovery,
    /// The leader of a cluster is killed (-9): how long until a lock is granted again, and what becomes of held ones
    Failover,
    /// The server dies while locks are held: when each holder is told, against its deadline
    Loss,
}

impl Workload {
    /// In the order in which they are measured. After `Loss`, there is no server any more.
    pub(crate) const ALL: [Workload; 16] = [
        Workload::OwnNames,
        Workload::OpenLoop,
        Workload::Names,
        Workload::OneName,
        Workload::HandOver,
        Workload::Delay,
        Workload::Waiting,
        Workload::OneLost,
        Workload::Renewal,
        Workload::Commits,
        Workload::Held,
        Workload::ServerCpu,
        Workload::Claims,
        Workload::Recovery,
        Workload::Failover,
        Workload::Loss,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Workload::OwnNames => "own-names",
            Workload::OpenLoop => "open-loop",
            Workload::Names => "names",
            Workload::OneName => "one-name",
            Workload::HandOver => "hand-over",
            Workload::Delay => "delay",
            Workload::Waiting => "waiting",
            Workload::OneLost => "one-lost",
            Workload::Renewal => "renewal",
            Workload::Commits => "commits",
            Workload::Held => "held",
            Workload::ServerCpu => "server-cpu",
            Workload::Claims => "claims",
            Workload::Recovery => "recovery",
            Workload::Failover => "failover",
            Workload::Loss => "loss",
        }
    }

    /// Returns what is measured of it, one after the other.
    pub(crate) fn cases(self) -> Vec<Case> {
        match self {
            Workload::OwnNames => [1, 8, 64, 512].map(|tasks| Case::OwnNames { tasks }).to_vec(),
            Workload::OpenLoop => [50, 80].map(|percent| Case::OpenLoop { percent }).to_vec(),
            Workload::Names => [10, 1_000, 10_000].map(|names| Case::Names { names }).to_vec(),
            Workload::OneName => {
                // One contender in each process shows what a hand-over costs by the number of processes that wait.
                let cases = [(8, 1), (64, 1), (2, 2), (8, 8), (32, 32), (64, 8)];
                cases.map(|(contenders, processes)| Case::OneName { contenders, processes }).to_vec()
            }
            Workload::HandOver => vec![Case::HandOver],
            Workload::Delay => vec![Case::Delay],
            Workload::Waiting => [1, 8, 32].map(|processes| Case::Waiting { processes }).to_vec(),
            Workload::OneLost => vec![Case::OneLost],
            Workload::Renewal => vec![Case::Renewal],
            Workload::Commits => vec![Case::Commits],
            Workload::Held => [100, 1_000, 10_000].map(|locks| Case::Held { locks }).to_vec(),
            Workload::ServerCpu => vec![Case::ServerCpu { tasks: 8 }],
            Workload::Claims => vec![Case::Claims],
            Workload::Recovery => vec![Case::Recovery],
            Workload::Failover => vec![Case::Failover],
            Workload::Loss => vec![Case::Loss],
        }
    }
}

/// A workload with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    OwnNames { tasks: usize },
    Names { names: usize },
    OneName { contenders: usize, processes: usize },
    HandOver,
    Delay,
    Waiting { processes: usize },
    OneLost,
    Renewal,
    Commits,
    OpenLoop { percent: usize },
    Recovery,
    Failover,
    Loss,
    Held { locks: usize },
    ServerCpu { tasks: usize },
    Claims,
}

impl Case {
    pub(crate) fn workload(self) -> Workload {
        match self {
            Case::OwnNames { .. } => Workload::OwnNames,
            Case::Names { .. } => Workload::Names,
            Case::OneName { .. } => Workload::OneName,
            Case::HandOver => Workload::HandOver,
            Case::Delay => Workload::Delay,
            Case::Waiting { .. } => Workload::Waiting,
            Case::OneLost => Workload::OneLost,
            Case::Renewal => Workload::Renewal,
            Case::Commits => Workload::Commits,
            Case::OpenLoop { .. } => Workload::OpenLoop,
            Case::Recovery => Workload::Recovery,
            Case::Failover => Workload::Failover,
            Case::Loss => Workload::Loss,
            Case::Held { .. } => Workload::Held,
            Case::ServerCpu { .. } => Workload::ServerCpu,
            Case::Claims => Workload::Claims,
        }
    }

    /// Returns the parameters by their names in the report.
    pub(crate) fn parameters(self) -> BTreeMap<String, u64> {
        let named = |name: &str, value: usize| (name.to_owned(), value as u64);
        match self {
            Case::OwnNames { tasks } => BTreeMap::from([named("tasks", tasks)]),
            Case::OneName { contenders, processes } => {
                BTreeMap::from([named("contenders", contenders), named("processes", processes)])
            }
            Case::OpenLoop { percent } => BTreeMap::from([named("percent", percent)]),
            Case::Names { names } => BTreeMap::from([named("names", names)]),
            Case::Held { locks } => BTreeMap::from([named("locks", locks)]),
            Case::ServerCpu { tasks } => BTreeMap::from([named("tasks", tasks)]),
            Case::Waiting { processes } => BTreeMap::from([named("processes", processes)]),
            _ => BTreeMap::new(),
        }
    }
}

impl std::fmt::Display for Case {
    /// `own-names tasks=8`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.workload().as_str())?;
        self.parameters().iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_text_of_its_own() {
        let cases: Vec<Case> = Workload::ALL.into_iter().flat_map(Workload::cases).collect();
        let texts: BTreeSet<String> = cases.iter().map(Case::to_string).collect();
        assert_eq!(texts.len(), cases.len());
        assert!(texts.contains("own-names tasks=512"), "{texts:?}");
        for workload in Workload::ALL {
            assert!(workload.cases().iter().all(|case| case.workload() == workload));
            let value = workload.to_possible_value().unwrap();
            assert_eq!(value.get_name(), workload.as_str());
        }
        assert_eq!(Workload::ALL.len(), Workload::value_variants().len());
        assert_eq!(Workload::ALL.last(), Some(&Workload::Loss), "it leaves no server");
    }
}
