//! Which subjects take part in a case, and why none does.

use lock_core::driver::Wakes;

use super::workload::Case;
use crate::args;
use crate::backend::Backend;
use crate::lineup;
use crate::subjects::Kind;

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
        Case::OwnNames { .. } => as_quick(args::Workload::ManyNames)?,
        Case::OneName { processes, .. } if processes > 1 && backend == Backend::Memory => {
            return Err("memory can be used by one process only");
        }
        // The raw driver has no contenders: its floor is the hand-over between two processes, where it can wait.
        Case::OneName { .. } => match as_quick(args::Workload::HandOver) {
            Ok(kinds) => kinds,
            Err(_) => vec![Kind::Ours],
        },
        Case::HandOver => as_quick(args::Workload::HandOver)?,
        Case::Delay => as_quick(args::Workload::Delay)?,
        Case::Waiting { .. } => as_quick(args::Workload::Waiting)?,
        Case::OneLost => as_quick(args::Workload::OneLost)?,
        Case::Renewal => as_quick(args::Workload::Renewal)?,
        Case::Commits => as_quick(args::Workload::Commits)?,
        Case::OpenLoop { .. } => {
            let mut kinds = as_quick(args::Workload::ManyNames)?;
            kinds.retain(|kind| matches!(kind, Kind::Ours | Kind::Floor));
            kinds
        }
        Case::Recovery if backend == Backend::Memory => {
            return Err("memory can be used by one process only");
        }
        Case::Recovery => vec![Kind::Ours],
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
        Case::ServerCpu { .. } => as_quick(args::Workload::ManyNames)?,
    };
    // `peers` adds them where they are asked for.
    kinds.retain(|kind| !matches!(kind, Kind::Peer(_)));
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

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
