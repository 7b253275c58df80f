//! How long each case is measured, and how long it takes with its preparation. The estimates are of runs on two cores.

use std::time::Duration;

use super::lineup;
use super::workload::Case;
use crate::backend::Backend;

/// How thorough a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// All servers within ten minutes.
    Quick,
    Thorough,
}

/// How long a server takes to start. MySQL takes three seconds; most others take less than one.
pub(super) const START: Duration = Duration::from_millis(1_500);

/// The open loop of a quick run, by its share of the closed loop's rate.
const OPEN_IN_QUICK: usize = 50;
/// How many locks are held by a quick run.
const HELD_IN_QUICK: usize = 1_000;
/// How many names a quick run uses at most.
const NAMES_IN_QUICK: usize = 1_000;
/// The contenders of a quick run, and how many processes they are in.
const CONTENDERS_IN_QUICK: [(usize, usize); 4] = [(64, 1), (2, 2), (8, 8), (64, 8)];

/// Returns how long a case is measured; `None` if it is left out.
pub(super) fn length(case: Case, speed: Speed) -> Option<Duration> {
    let (quick, thorough) = match case {
        Case::OwnNames { tasks: 512.. } => (Some(1_500), 12_000),
        Case::OwnNames { .. } => (Some(1000), 12_000),
        // It takes as long as it takes: see `preparation`.
        Case::Names { names } => ((names <= NAMES_IN_QUICK).then_some(100), 100),
        Case::OneName { contenders, processes } => {
            let quick = if contenders >= 64 { 2_800 } else { 1_200 };
            (CONTENDERS_IN_QUICK.contains(&(contenders, processes)).then_some(quick), 12_000)
        }
        Case::HandOver => (Some(1000), 12_000),
        Case::Delay => (Some(4000), 16_000),
        Case::Waiting { .. } => (None, 10_000),
        Case::OneLost => (Some(1500), 12_000),
        Case::Renewal => (None, 12_000),
        Case::Commits => (None, 12_000),
        Case::OpenLoop { percent } => ((percent == OPEN_IN_QUICK).then_some(1000), 12_000),
        Case::Recovery => (Some(2_000), 20_000),
        // At least one member is killed.
        Case::Failover => (Some(100), 20_000),
        Case::Loss => (Some(1000), 1_000),
        Case::Held { locks } => ((locks == HELD_IN_QUICK).then_some(2_000), 10_000),
        Case::ServerCpu { .. } => (Some(2_000), 12_000),
        // They take as long as they take: see `preparation`.
        Case::Claims => (Some(1_000), 1_000),
    };
    let millis = match speed {
        Speed::Quick => quick,
        Speed::Thorough => Some(thorough),
    };
    millis.map(Duration::from_millis)
}

/// Returns about how long it takes to prepare a case: connections, processes, warm-up.
pub(super) fn preparation(case: Case, backend: Backend) -> Duration {
    // Each warms up.
    let of_schemes = 200 * lineup::schemes(case, backend).len() as u64;
    let millis = match case {
        // The floor's commands are recorded for each name, on several servers.
        Case::OwnNames { tasks } if backend == Backend::Redlock => 800 + 6 * tasks as u64 + of_schemes,
        Case::OwnNames { tasks } => 600 + 2 * tasks as u64 + of_schemes,
        Case::Names { names } => 600 + names as u64 * micros_of_a_name(backend) / 1_000,
        Case::OneName { processes, .. } => 700 + 60 * processes as u64,
        Case::HandOver | Case::OneLost => 500,
        Case::Delay => 1_000,
        // The processes wait for 10 s, and requests are counted before and after that.
        Case::Waiting { .. } => 22_000,
        Case::Renewal | Case::Commits => 3_000,
        // The closed loops are measured first.
        Case::OpenLoop { .. } => 2_000,
        // A ttl of a second may begin at the end.
        Case::Recovery | Case::Loss => 1_500,
        // Servers of its own are started, one is killed and started again, and two of the shortest leases pass.
        Case::Failover => match backend {
            Backend::Redlock => 4_000,
            Backend::Etcd => 10_000,
            _ => 12_000,
        },
        // They are acquired and released.
        Case::Held { locks } => 500 + locks as u64 / 2,
        Case::ServerCpu { .. } => 2_000,
        // With two dead waiters, the fair lock of the texts keeps the next one waiting for eleven seconds.
        Case::Claims if backend == Backend::Redis => 12_000,
        Case::Claims if backend == Backend::Redlock => 8_000,
        Case::Claims => 6_000,
    };
    Duration::from_millis(millis)
}

/// Returns about how many microseconds it takes the library and its floor to use one new name each, one after the other.
fn micros_of_a_name(backend: Backend) -> u64 {
    match backend {
        Backend::Memory => 20,
        Backend::Redis => 500,
        Backend::Postgres => 700,
        Backend::Sqlite | Backend::Redlock => 1_200,
        Backend::MySql => 2_000,
        Backend::Etcd => 2_500,
        Backend::ZooKeeper => 4_500,
        Backend::Mongo => 6_000,
    }
}
