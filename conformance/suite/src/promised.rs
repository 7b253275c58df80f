//! What `docs/semantics.md` promises of each of our backends.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease};

/// Whether what the server says of itself agrees with the document. Backends of other people may say anything.
pub(crate) fn is_kept(info: &Info) -> bool {
    let promised = of(info.backend);
    let keeps = promised.contains(&(info.lease, info.fair, rises(&info.fencing)));
    promised.is_empty() || (keeps && clock_step(&info.fencing) >= HOUR)
}

/// More than a clock is set by hand or by summer time.
const HOUR: Duration = Duration::from_secs(3600);

/// Returns how far clocks may fall back.
fn clock_step(fencing: &Fencing) -> Duration {
    match fencing {
        Fencing::WhileDataIsKept { clock_step, .. }
        | Fencing::WhileAMajorityKeepsItsData { clock_step, .. } => *clock_step,
        _ => Duration::MAX,
    }
}

/// How far tokens can be relied on to rise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rises {
    Always,
    WhileDataIsKept,
    WhileAMajorityKeepsIts,
    UntilAMajorityLosesIts,
}

fn rises(fencing: &Fencing) -> Option<Rises> {
    match fencing {
        Fencing::Always => Some(Rises::Always),
        Fencing::WhileDataIsKept { .. } => Some(Rises::WhileDataIsKept),
        Fencing::WhileAMajorityKeepsItsData { .. } => Some(Rises::WhileAMajorityKeepsIts),
        Fencing::UntilAMajorityLosesItsData { .. } => Some(Rises::UntilAMajorityLosesIts),
        _ => None,
    }
}

fn of(backend: &str) -> Vec<(Lease, Fair, Option<Rises>)> {
    let of_locks = |rises| (Lease::Lock, Fair::No, Some(rises));
    let of_sessions = |rises| (Lease::Session, Fair::PerProcess, Some(rises));
    match backend {
        "memory" | "redis" | "mysql" | "postgres" | "sqlite" => vec![of_locks(Rises::WhileDataIsKept)],
        // One server, or a replica set.
        "mongodb" => vec![of_locks(Rises::WhileDataIsKept), of_locks(Rises::WhileAMajorityKeepsIts)],
        "redlock" => vec![of_locks(Rises::WhileAMajorityKeepsIts)],
        "memory-queue" => vec![of_sessions(Rises::Always)],
        "etcd" | "zookeeper" => vec![of_sessions(Rises::UntilAMajorityLosesIts)],
        _ => Vec::new(),
    }
}
