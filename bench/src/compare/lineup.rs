//! Which subjects take part in a case, and why none does.

use lock_core::driver::Wakes;
use lock_naive::Scheme;

use super::claims;
use super::workload::Case;
use crate::backend::Backend;
use crate::clusters::Cluster;
use crate::lineup;
use crate::subjects::Kind;
use crate::workload::Workload as Quick;

/// Where a server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This program has started it, and may kill it.
    Started,
    /// Its URL was given: it must not be killed.
    Given,
}

/// Returns the subjects that can take part, or why the case can't be measured there.
pub(crate) fn of(
    case: Case,
    backend: Backend,
    wakes: Wakes,
    origin: Origin,
) -> Result<Vec<Kind>, &'static str> {
    let as_quick = |workload| lineup::of(workload, backend, wakes);
    let mut kinds = match case {
        // The claims compare these with each other.
        Case::OwnNames { .. } if origin == Origin::Started => {
            let mut kinds = as_quick(Quick::ManyNames)?;
            kinds.extend(schemes(case, backend).iter().map(|scheme| Kind::Naive(*scheme)));
            kinds
        }
        Case::OwnNames { .. } => as_quick(Quick::ManyNames)?,
        Case::Claims if !claims::are_tried_on(backend) => {
            return Err("no claim is tried on this kind of server");
        }
        // The schemes make tables and keys of their own.
        Case::Claims if origin == Origin::Given => {
            return Err("claims are tried only on a server that this program has started");
        }
        Case::Claims => vec![Kind::Ours],
        Case::OneName { processes, .. } if processes > 1 && backend == Backend::Memory => {
            return Err("memory can be used by one process only");
        }
        // The raw driver has no contenders: its floor is the hand-over between two processes, where it can wait.
        Case::OneName { .. } => match as_quick(Quick::HandOver) {
            Ok(kinds) => kinds,
            Err(_) => vec![Kind::Ours],
        },
        Case::HandOver => as_quick(Quick::HandOver)?,
        Case::Delay => as_quick(Quick::Delay)?,
        Case::Waiting { .. } => as_quick(Quick::Waiting)?,
        Case::OneLost => as_quick(Quick::OneLost)?,
        Case::Renewal => as_quick(Quick::Renewal)?,
        Case::Commits => as_quick(Quick::Commits)?,
        Case::OpenLoop { .. } | Case::Names { .. } => {
            let mut kinds = as_quick(Quick::ManyNames)?;
            kinds.retain(|kind| matches!(kind, Kind::Ours | Kind::Floor));
            kinds
        }
        Case::Recovery if backend == Backend::Memory => {
            return Err("memory can be used by one process only");
        }
        Case::Recovery => vec![Kind::Ours],
        Case::Failover if matches!(backend, Backend::Memory | Backend::Sqlite) => {
            return Err("there is no server that could be killed");
        }
        Case::Failover if !Cluster::is_known_of(backend) => {
            return Err("this program starts single servers of this kind only, and no cluster");
        }
        Case::Failover if origin == Origin::Given => {
            return Err("only the members of a cluster that this program has started may be killed");
        }
        Case::Failover => vec![Kind::Ours],
        Case::Loss if matches!(backend, Backend::Memory | Backend::Sqlite) => {
            return Err("there is no server that could die");
        }
        Case::Loss if origin == Origin::Given => {
            return Err("only a server that this program has started may be killed");
        }
        Case::Loss => vec![Kind::Ours],
        Case::Held { .. } => vec![Kind::Ours],
        Case::ServerCpu { .. } if matches!(backend, Backend::Memory | Backend::Sqlite) => {
            return Err("there is no server");
        }
        Case::ServerCpu { .. } if origin == Origin::Given => {
            return Err("only the processes of a server that this program has started are known");
        }
        Case::ServerCpu { .. } => as_quick(Quick::ManyNames)?,
    };
    // `peers` adds them where they are asked for.
    kinds.retain(|kind| !matches!(kind, Kind::Peer(_)));
    Ok(kinds)
}

/// Returns the schemes of texts that take part in a case: those whose speed a claim is about.
pub(super) fn schemes(case: Case, backend: Backend) -> &'static [Scheme] {
    match (case, backend) {
        (Case::OwnNames { tasks: 1 | 64 }, Backend::Redis) => &[Scheme::Setnx, Scheme::SetNxEx],
        (Case::OwnNames { tasks: 1 | 64 }, Backend::Redlock) => &[Scheme::Redlock],
        (Case::OwnNames { tasks: 1 | 64 }, Backend::MySql) => &[Scheme::UniqueIndex],
        (Case::OwnNames { tasks: 1 | 64 }, Backend::Mongo) => &[Scheme::FindAndModify],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_measured_on_servers_of_this_program_only() {
        let schemes = |origin, tasks| {
            let kinds = of(Case::OwnNames { tasks }, Backend::Redis, Wakes::Pushed, origin).unwrap();
            kinds.into_iter().filter(|kind| matches!(kind, Kind::Naive(_))).count()
        };
        assert_eq!([schemes(Origin::Started, 1), schemes(Origin::Started, 8)], [2, 0]);
        assert_eq!([schemes(Origin::Given, 1), schemes(Origin::Given, 64)], [0, 0]);
        let claims = |origin, backend| of(Case::Claims, backend, Wakes::Pushed, origin).is_ok();
        assert!(claims(Origin::Started, Backend::Redis) && !claims(Origin::Given, Backend::Redis));
        assert!(!claims(Origin::Started, Backend::Postgres));
    }

    #[test]
    fn the_library_takes_part_in_every_case_that_can_be_measured() {
        for workload in super::super::workload::Workload::ALL {
            for case in workload.cases() {
                for backend in [Backend::Memory, Backend::Redis, Backend::Redlock, Backend::Postgres] {
                    if let Ok(kinds) = of(case, backend, Wakes::Pushed, Origin::Started) {
                        let has_peer = kinds.iter().any(|kind| matches!(kind, Kind::Peer(_)));
                        assert!(kinds.contains(&Kind::Ours) && !has_peer, "{case}");
                    }
                }
            }
        }
    }
}
