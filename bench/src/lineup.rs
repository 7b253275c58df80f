//! Which subjects take part in a workload, and why none does.

use lock_core::driver::Wakes;

use crate::backend::Backend;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::workload::Workload;

/// Returns the subjects that can take part, or why the workload can't be measured there.
pub(crate) fn of(workload: Workload, backend: Backend, wakes: Wakes) -> Result<Vec<Kind>, &'static str> {
    let of_servers = !matches!(backend, Backend::Memory | Backend::Sqlite);
    match workload {
        Workload::Uncontended | Workload::ManyNames => Ok(match backend {
            Backend::Memory => vec![Kind::Ours],
            Backend::Redis => vec![Kind::Ours, Kind::Floor, Kind::NoToken, Kind::Peer(Peer::Rslock)],
            Backend::Redlock => vec![Kind::Ours, Kind::Floor, Kind::OneRound],
            _ => vec![Kind::Ours, Kind::Floor],
        }),
        // The raw driver has nothing that several tasks could wait for.
        Workload::OneName if backend == Backend::Redis => Ok(vec![Kind::Ours, Kind::Peer(Peer::Rslock)]),
        Workload::OneName | Workload::Held => Ok(vec![Kind::Ours]),
        Workload::Crowd if matches!(backend, Backend::Memory | Backend::Redis) => Ok(vec![Kind::Ours]),
        // The waiting tasks of one client cost the server as much as one of them, whichever it is.
        Workload::Crowd => {
            Err("the queue in the process is the same on every server: memory and Redis show it")
        }
        _ if backend == Backend::Memory => Err("memory can be used by one process only"),
        Workload::OneLost if backend == Backend::Redlock => {
            Ok(vec![Kind::Ours, Kind::OneDead, Kind::OneSilent])
        }
        Workload::OneLost => Err("only Redlock works without one of its servers"),
        // The raw driver has nothing that waits for several servers.
        Workload::HandOver if backend == Backend::Redlock => Ok(vec![Kind::Ours]),
        Workload::HandOver if backend == Backend::Redis => {
            Ok(vec![Kind::Ours, Kind::Floor, Kind::Peer(Peer::Rslock)])
        }
        Workload::HandOver if of_servers && wakes == Wakes::Pushed => Ok(vec![Kind::Ours, Kind::Floor]),
        Workload::HandOver | Workload::Processes => Ok(vec![Kind::Ours]),
        Workload::Delay if wakes == Wakes::Polled => Ok(vec![Kind::Ours]),
        Workload::Delay => Err("releases are pushed here, so no waiter has to poll"),
        Workload::Waiting if of_servers => Ok(vec![Kind::Ours]),
        Workload::Waiting => Err("a file doesn't count requests"),
        Workload::Renewal if matches!(backend, Backend::MySql | Backend::Postgres) => Ok(vec![Kind::Ours]),
        Workload::Renewal => Err("here no renewal waits for a row that other clients read"),
        Workload::Commits if backend == Backend::Postgres => {
            Ok(vec![Kind::Ours, Kind::NeverNotifies, Kind::AlwaysNotifies])
        }
        Workload::Commits => Err("only PostgreSQL has NOTIFY"),
        Workload::FirstLock => Ok(vec![Kind::Ours, Kind::Floor]),
    }
}
