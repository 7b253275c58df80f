//! What `quick` measures.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One task, one name: acquire, release
    Uncontended,
    /// 64 tasks of one client on 64 names
    ManyNames,
    /// 8 tasks of one client on one name
    OneName,
    /// On Redlock: one task, one name, while one of the servers is dead, or takes requests and answers none
    OneLost,
    /// Two processes on one name: from the release in the one to the grant in the other
    HandOver,
    /// Eight processes on one name: how long each acquisition waits
    Processes,
    /// Where waiters have to poll: how long after a release they are granted the lock
    Delay,
    /// Eight processes that have waited for 10 s: how many requests each sends to the server
    Waiting,
    /// One renewal after the other, alone and while 100 connections wait
    Renewal,
    /// Commits to an unrelated table, beside 64 loops that take and release locks
    Commits,
    /// Many locks that one client of another process holds and renews: its memory and CPU time, and the server's
    Held,
    /// 100,000 tasks of one client in another process that wait for 100 names: memory, and how fast a release is seen
    Crowd,
    /// `lock run` from the start of its process to its grant, beside a process of the raw driver
    FirstLock,
}

impl Workload {
    /// In the order in which they are measured.
    pub(crate) const ALL: [Workload; 13] = [
        Workload::Uncontended,
        Workload::ManyNames,
        Workload::OneName,
        Workload::OneLost,
        Workload::HandOver,
        Workload::Processes,
        Workload::Delay,
        Workload::Waiting,
        Workload::Renewal,
        Workload::Commits,
        Workload::Held,
        Workload::Crowd,
        Workload::FirstLock,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Workload::Uncontended => "uncontended",
            Workload::ManyNames => "many-names",
            Workload::OneName => "one-name",
            Workload::OneLost => "one-lost",
            Workload::HandOver => "hand-over",
            Workload::Processes => "processes",
            Workload::Delay => "delay",
            Workload::Waiting => "waiting",
            Workload::Renewal => "renewal",
            Workload::Commits => "commits",
            Workload::Held => "held",
            Workload::Crowd => "crowd",
            Workload::FirstLock => "first-lock",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_measured_and_called_as_it_is_shown() {
        assert_eq!(Workload::ALL, Workload::value_variants());
        for workload in Workload::ALL {
            assert_eq!(workload.to_possible_value().unwrap().get_name(), workload.as_str());
        }
    }
}
