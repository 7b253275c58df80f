//! A cluster of three primaries with a replica each.

use std::time::Duration;

use lock_conformance::Data;
use lock_test_servers::{Owned, RedisCluster, Settings};

use super::Copies;
use super::history::{Harm, Way};
use super::load::{Contended, Turn};
use crate::cluster::slot;
use crate::server::{Raw, raw_at, until};

const GROUPS: usize = 3;

pub(super) struct Cluster {
    cluster: RedisCluster,
    /// One slot of each group.
    slots: Vec<u16>,
    names: Vec<[String; 2]>,
}

impl Cluster {
    pub(super) fn start() -> Cluster {
        println!("the members' timeout is 500ms");
        let cluster = RedisCluster::start(&Settings::default()).expect("another was started before");
        let names: Vec<[String; 2]> = (0..GROUPS)
            .map(|group| {
                let is_its = |name: &String| cluster.primary_of(slot(name), 0).unwrap() == group;
                let mut own = (0..1000).map(|nth| format!("n{nth}")).filter(is_its);
                [own.next().unwrap(), own.next().unwrap()]
            })
            .collect();
        let slots = names.iter().map(|[name, _]| slot(name)).collect();
        Cluster { cluster, slots, names }
    }

    /// Returns a member that is not of this group.
    fn other(group: usize) -> usize {
        (group + 1) % GROUPS
    }

    async fn raw(&self, member: usize) -> Raw {
        raw_at(self.servers()[member].url()).await
    }
}

impl Copies for Cluster {
    const BETWEEN: Duration = Duration::from_secs(4);
    const WAYS: &[Way] = &[Way::KilledAhead, Way::Frozen, Way::HandedOver, Way::Killed];

    fn url(&self) -> String {
        let hosts: Vec<String> = self.servers().iter().map(Owned::address).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    fn names(&self) -> Vec<Contended> {
        let of_group = |(group, names): (usize, &[String; 2])| {
            let turns = [(&names[0], Turn::Short), (&names[1], Turn::Long)];
            turns.map(|(name, turn)| Contended { name: name.clone(), group, turn })
        };
        self.names.iter().enumerate().flat_map(of_group).collect()
    }

    fn groups(&self) -> usize {
        GROUPS
    }

    fn servers(&self) -> &[Owned] {
        self.cluster.members()
    }

    fn primary(&self, group: usize) -> usize {
        self.cluster.primary_of(self.slots[group], Self::other(group)).unwrap()
    }

    fn replicas(&self, group: usize, primary: usize) -> Vec<usize> {
        [group, group + GROUPS].into_iter().filter(|member| *member != primary).collect()
    }

    /// The primary itself lets clients wait until the other one has all data.
    async fn switch(&self, group: usize, primary: usize, _: Way) {
        for replica in self.replicas(group, primary) {
            let _: () = self.raw(replica).await.ask(&["CLUSTER", "FAILOVER"]).await;
        }
    }

    fn harm(way: Way) -> Harm {
        match way {
            Way::Switched | Way::HandedOver => Harm::Nothing,
            Way::Frozen => Harm::TwoAnswer,
            Way::KilledAhead | Way::Killed => Harm::GrantsAreLost,
        }
    }

    async fn has_successor(&self, group: usize, old: usize) -> bool {
        self.cluster.primary_of(self.slots[group], Self::other(group)).is_ok_and(|member| member != old)
    }

    fn restart(&self, member: usize) {
        self.servers()[member].restart(Data::Kept).unwrap();
    }

    async fn become_whole(&self, group: usize) {
        let slot = self.slots[group];
        let primary = self.primary(group);
        until("all members agree on the primary", async || {
            (0..self.servers().len())
                .all(|member| self.cluster.primary_of(slot, member).is_ok_and(|found| found == primary))
        })
        .await;
        for replica in self.replicas(group, primary) {
            let mut raw = self.raw(replica).await;
            until("the replica follows", async || raw.info("replication", "role").await == "slave").await;
            until("it has all data", async || raw.info("replication", "master_link_status").await == "up")
                .await;
        }
    }
}
