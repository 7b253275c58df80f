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
}

impl Workload {
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
        }
    }
}
