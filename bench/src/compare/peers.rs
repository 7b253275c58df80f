//! Other libraries' locks in a comparison: in which cases they take part, and what the report says of them.

use std::time::Duration;

use lock_core::driver::Wakes;
use serde::{Deserialize, Serialize};

use super::workload::Case;
use crate::backend::Backend;
use crate::subjects::peers::Peer;
use crate::subjects::peers::promises::Lack;

/// Returns the peers that lock on this kind of server.
pub(super) fn of(backend: Backend) -> impl Iterator<Item = Peer> {
    Peer::ALL.into_iter().filter(move |peer| peer.backend() == backend)
}

/// Returns those of these peers that take part in a case.
pub(super) fn in_case(case: Case, peers: &[Peer]) -> Vec<Peer> {
    let takes_part = |peer: &Peer| match case {
        Case::OwnNames { tasks: 1 | 64 } => true,
        Case::HandOver => peer.waits(),
        _ => false,
    };
    peers.iter().copied().filter(takes_part).collect()
}

/// Returns how long a step takes in which peers take part, too, so that each subject still has as much time.
pub(super) fn lengthened(length: Duration, subjects: usize, peers: usize) -> Duration {
    length * (subjects + peers) as u32 / subjects.max(1) as u32
}

/// Returns about how long it takes to connect them, and to start and warm up those that are processes.
pub(super) fn preparation(peers: &[Peer]) -> Duration {
    let millis = |peer: &Peer| if peer.program().is_some() { 4_000 } else { 500 };
    peers.iter().map(|peer| Duration::from_millis(millis(peer))).sum()
}

/// Returns the end of a step's line in the plan: ` beside rslock, redsync`.
pub(super) fn line(peers: &[Peer]) -> String {
    let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
    if names.is_empty() { String::new() } else { format!(" beside {}", names.join(", ")) }
}

/// Returns what stands in place of a workload if a peer can't be measured at all: `peer redsync`.
pub(super) fn not_run(peer: Peer) -> String {
    format!("peer {}", peer.name())
}

/// What the report says of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerReport {
    pub(crate) name: String,
    pub(crate) language: String,
    pub(crate) version: String,
    pub(crate) promises: PeerPromises,
    /// What the library promises there and the peer does not.
    pub(crate) lacks: Vec<LackReport>,
}

/// What a peer promises, a word or two for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerPromises {
    pub(crate) token: String,
    pub(crate) loss: String,
    pub(crate) renewal: String,
    pub(crate) waiters: String,
    pub(crate) crash: String,
    pub(crate) release: String,
}

/// A promise that a peer lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LackReport {
    pub(crate) promise: String,
    /// What it costs the library.
    pub(crate) costs: String,
}

impl PeerReport {
    /// Describes a peer on a server on which the library's waiters learn of a release as `wakes` says.
    pub(super) fn of(peer: Peer, wakes: Wakes) -> PeerReport {
        let promises = peer.promises();
        let lack =
            |lack: Lack| LackReport { promise: lack.as_str().to_owned(), costs: lack.costs().to_owned() };
        PeerReport {
            name: peer.name().to_owned(),
            language: peer.language().as_str().to_owned(),
            version: peer.version().to_owned(),
            promises: PeerPromises {
                token: promises.token.as_str().to_owned(),
                loss: promises.loss.as_str().to_owned(),
                renewal: promises.renewal.as_str().to_owned(),
                waiters: promises.waiters.as_str().to_owned(),
                crash: promises.crash.as_str().to_owned(),
                release: promises.release.as_str().to_owned(),
            },
            lacks: promises.lacks(wakes).into_iter().map(lack).collect(),
        }
    }

    /// Returns what it lacks, for people: `token, wake-ups by push`.
    pub(super) fn lacking(&self) -> String {
        self.lacks.iter().map(|lack| &*lack.promise).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_take_part_where_their_cycles_mean_the_same() {
        let all = Peer::ALL;
        assert_eq!(in_case(Case::OwnNames { tasks: 64 }, &all), all);
        assert!(in_case(Case::Recovery, &all).is_empty());
        assert!(in_case(Case::HandOver, &all).iter().all(|peer| peer.waits()));
    }

    #[test]
    fn each_subject_keeps_its_time() {
        let second = Duration::from_secs(1);
        assert_eq!(lengthened(second, 2, 4), second * 3);
        assert_eq!(lengthened(second, 3, 0), second);
    }

    #[test]
    fn a_report_names_what_a_peer_lacks_and_what_that_costs() {
        let rslock = PeerReport::of(Peer::Rslock, Wakes::Pushed);
        assert_eq!((&*rslock.name, &*rslock.promises.token), ("rslock", "none"));
        assert!(rslock.lacking().starts_with("token, "), "{}", rslock.lacking());
        assert!(rslock.lacks.iter().all(|lack| !lack.costs.is_empty()));
    }

    #[test]
    fn the_plan_names_the_peers() {
        assert_eq!(line(&[]), "");
        assert_eq!(
            line(&[Peer::Rslock, Peer::DistributedLockRedis]),
            " beside rslock, distributed-lock-redis"
        );
    }
}
