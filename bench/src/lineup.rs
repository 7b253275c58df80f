//! The line-up of a case: the subjects that take part, or the reason why none does.

use std::time::Duration;

use lock_core::driver::Wakes;
use lock_naive::Scheme;

use crate::backend::Backend;
use crate::case::Case;
use crate::claims;
use crate::clusters::Cluster;
use crate::servers::Asked;
use crate::subjects::peers::Peer;
use crate::subjects::{Kind, Lost};

/// A server, as a line-up needs it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) backend: Backend,
    pub(crate) wakes: Wakes,
}

impl Place<'_> {
    /// Returns the subjects that can take part, without peers, or why the case can't be measured here.
    pub(crate) fn lineup(self, case: Case) -> Result<Vec<Kind>, &'static str> {
        if self.asked.is_a_variant() && !is_about_variants(case) {
            return Err("measured on the same server in its plain form");
        }
        let is_server = !matches!(self.backend, Backend::Memory | Backend::Sqlite);
        let is_memory = self.backend == Backend::Memory;
        let has_waiting_driver = is_server && self.wakes == Wakes::Pushed && self.backend != Backend::Redlock;
        let ours_and = |others: &[Kind]| Ok([&[Kind::Ours][..], others].concat());
        match case {
            Case::OwnNames { .. } if is_memory => ours_and(&[]),
            Case::OwnNames { .. } => {
                let schemes = self.schemes(case).iter().map(|scheme| Kind::Naive(*scheme));
                ours_and(&std::iter::once(Kind::Baseline).chain(schemes).collect::<Vec<_>>())
            }
            Case::OneName { processes: 2.., .. }
            | Case::HandOver
            | Case::Processes
            | Case::Delay
            | Case::Recovery
                if is_memory =>
            {
                Err("memory can be used by one process only")
            }
            // The raw driver has no contenders: they are compared with its hand-over between two processes.
            Case::OneName { .. } | Case::HandOver if has_waiting_driver => ours_and(&[Kind::Baseline]),
            Case::OneName { .. } | Case::HandOver | Case::Processes => ours_and(&[]),
            Case::Delay if self.wakes == Wakes::Pushed => {
                Err("releases are pushed here, so no waiter has to poll")
            }
            Case::OneLost if self.backend == Backend::Redlock => {
                ours_and(&[Kind::Without(Lost::Dead), Kind::Without(Lost::Silent)])
            }
            Case::OneLost => Err("only Redlock works without one of its servers"),
            Case::Held { locks: 100_000.. } if !matches!(self.backend, Backend::Memory | Backend::Redis) => {
                Err("so many locks take minutes here; memory and Redis show what they cost the client")
            }
            Case::Claims if !claims::are_tried_on(self.backend) => {
                Err("no claim is tried on this kind of server")
            }
            // The schemes make tables and keys of their own.
            Case::Claims if !self.asked.is_started() => {
                Err("claims are tried only on a server that this program started")
            }
            Case::Claims if self.asked.is_standalone_mongodb() => Err("claims are tried on mongodb"),
            Case::Failover if !is_server => Err("there is no server that could be killed"),
            Case::Failover if self.asked.is_standalone_mongodb() || !Cluster::is_known_of(self.backend) => {
                Err("a single server has no member that could take over")
            }
            Case::Failover if !self.asked.is_started() => {
                Err("only a server that this program has started may be killed")
            }
            Case::Delay | Case::Held { .. } | Case::Recovery | Case::Claims | Case::Failover => ours_and(&[]),
        }
    }

    /// Returns the schemes of texts that take part in a case: those whose speed a claim is about.
    fn schemes(self, case: Case) -> &'static [Scheme] {
        match (case, self.backend) {
            _ if !self.asked.is_started() => &[],
            (Case::OwnNames { tasks: 1 | 64 }, Backend::Redis) => &[Scheme::Setnx, Scheme::SetNxEx],
            (Case::OwnNames { tasks: 1 | 64 }, Backend::Redlock) => &[Scheme::Redlock],
            (Case::OwnNames { tasks: 1 | 64 }, Backend::MySql) => &[Scheme::UniqueIndex],
            (Case::OwnNames { tasks: 1 | 64 }, Backend::Mongo) => &[Scheme::FindAndModify],
            _ => &[],
        }
    }

    /// Returns the peers that lock on this kind of server.
    pub(crate) fn peers(self) -> impl Iterator<Item = Peer> {
        let is_here = move |peer: &Peer| peer.backend == self.backend && !self.asked.is_a_variant();
        Peer::ALL.into_iter().filter(is_here)
    }
}

/// Returns whether another form of a server, or its disk, makes a difference.
fn is_about_variants(case: Case) -> bool {
    matches!(case, Case::OwnNames { tasks: 1 | 64 } | Case::HandOver | Case::OneName { processes: 8, .. })
}

pub(crate) fn takes_part(peer: Peer, case: Case) -> bool {
    match case {
        Case::OwnNames { tasks: 1 | 64 } => true,
        Case::HandOver => peer.waits(),
        _ => false,
    }
}

/// Returns the length of a step in which peers take part, too, so that each subject has as much time as without them.
pub(crate) fn lengthened(length: Duration, subjects: usize, peers: usize) -> Duration {
    length * (subjects + peers) as u32 / subjects.max(1) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn lineup(on: &str, case: Case) -> Result<Vec<Kind>, &'static str> {
        let asked = Asked::parse(on).unwrap();
        let wakes = if asked.is_standalone_mongodb() { Wakes::Polled } else { Wakes::Pushed };
        Place { backend: asked.backend().unwrap(), asked: &asked, wakes }.lineup(case)
    }

    #[test]
    fn the_library_takes_part_wherever_something_is_measured() {
        for on in ["memory", "sqlite", "redis", "redlock", "mysql", "mongodb-alone", "etcd"] {
            let measured: Vec<_> = Case::all().filter_map(|case| lineup(on, case).ok()).collect();
            assert!(measured.len() > 3 && measured.iter().all(|kinds| kinds[0] == Kind::Ours), "{on}");
        }
        assert!(lineup("memory", Case::HandOver).is_err());
        assert!(lineup("redis", Case::HandOver).unwrap().contains(&Kind::Baseline));
        assert!(!lineup("redlock", Case::HandOver).unwrap().contains(&Kind::Baseline));
        assert!(lineup("mongodb-alone", Case::Delay).is_ok() && lineup("mongodb", Case::Delay).is_err());
    }

    #[test]
    fn only_a_started_server_has_schemes_or_is_killed() {
        let schemes = |on| {
            let kinds = lineup(on, Case::OwnNames { tasks: 1 }).unwrap();
            kinds.iter().filter(|kind| matches!(kind, Kind::Naive(_))).count()
        };
        assert_eq!((schemes("redis"), schemes("redis://h")), (2, 0));
        assert!(lineup("redis", Case::Claims).is_ok() && lineup("redis://h", Case::Claims).is_err());
        assert!(lineup("etcd", Case::Failover).is_ok() && lineup("etcd://h", Case::Failover).is_err());
        assert!(lineup("redis", Case::Failover).is_err() && lineup("mongodb-alone", Case::Failover).is_err());
    }

    #[test]
    fn a_variant_is_measured_where_it_differs() {
        let all = Asked::everything();
        let asked = all.iter().find(|asked| asked.is_a_variant()).unwrap();
        let variant = Place { asked, backend: Backend::Redis, wakes: Wakes::Pushed };
        let cases = Case::all().filter(|case| variant.lineup(*case).is_ok()).map(Case::workload);
        assert_eq!(cases.collect::<BTreeSet<_>>(), ["own-names", "one-name", "hand-over"].into());
    }

    #[test]
    fn peers_take_part_where_their_cycles_mean_the_same() {
        let all = |case| Peer::ALL.iter().filter(|peer| takes_part(**peer, case)).count();
        assert_eq!((all(Case::OwnNames { tasks: 64 }), all(Case::Recovery)), (Peer::ALL.len(), 0));
        assert!(Peer::ALL.iter().all(|peer| takes_part(*peer, Case::HandOver) == peer.waits()));
        assert_eq!(lengthened(Duration::from_secs(1), 2, 4), Duration::from_secs(3));
    }
}
