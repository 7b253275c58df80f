//! A cluster of three primaries, each with a replica.

use std::io;
use std::time::Duration;

use super::super::cluster;
use super::super::owned::Owned;
use super::super::port::Port;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::{Redis, ask, line};

/// Six members of a cluster that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct RedisCluster {
    members: Vec<Owned>,
    /// The ports on which members talk to each other.
    _buses: Vec<Port>,
}

/// For how long a member may be silent before the others take it for dead.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

impl RedisCluster {
    /// Starts three primaries, which have a third of the slots each, and a replica of each, and waits until all agree on
    /// that. The primaries come first.
    ///
    /// # Errors
    ///
    /// If Redis is missing or older than 7, or does not start, or if the members do not agree in time.
    pub fn start(settings: &Settings) -> Result<RedisCluster, Absence> {
        let failure = |e: io::Error| Absence::Failure(format!("no cluster: {e}"));
        let buses = cluster::ports(2 * PRIMARIES)?;
        let timeout = NODE_TIMEOUT.as_millis().to_string();
        let members: Vec<Settings> = buses
            .iter()
            .map(|bus| {
                let bus = bus.number().to_string();
                let member =
                    ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", &timeout];
                // A replica takes its primary's place whatever it has missed.
                let replica = ["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"];
                let own: Vec<&str> = settings.args.iter().map(String::as_str).collect();
                Settings { args: Vec::new(), ..settings.clone() }.and(&member).and(&replica).and(&own)
            })
            .collect();
        let started = RedisCluster { members: cluster::start(&Redis, &members)?, _buses: buses };
        started.form().map_err(failure)?;
        Ok(started)
    }

    /// Returns the URL for clients, which names one member.
    pub fn url(&self, rest: &str) -> String {
        format!("redis+cluster://{}{rest}", self.members[1].address())
    }

    /// Returns the members. The first three were the primaries at the start.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Returns the member that has this slot, as this other one knows it.
    ///
    /// # Errors
    ///
    /// If that member does not answer, or knows none.
    pub fn primary_of(&self, slot: u16, asked: usize) -> io::Result<usize> {
        let ranges: Vec<(u16, u16, u16)> = self
            .ask::<Vec<redis::Value>>(asked, &["CLUSTER", "SLOTS"])?
            .iter()
            .filter_map(|range| {
                let redis::Value::Array(range) = range else { return None };
                let first = redis::from_redis_value_ref(range.first()?).ok()?;
                let last = redis::from_redis_value_ref(range.get(1)?).ok()?;
                let redis::Value::Array(primary) = range.get(2)? else { return None };
                let port = redis::from_redis_value_ref(primary.get(1)?).ok()?;
                Some((first, last, port))
            })
            .collect();
        let found = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let port = found.map(|(_, _, port)| *port);
        let member = self.members.iter().position(|member| Some(member.port()) == port);
        member.ok_or_else(|| io::Error::other(format!("no member has slot {slot}")))
    }

    /// Begins to move a slot: its keys are still where they were.
    ///
    /// # Errors
    ///
    /// If a member refuses, or does not answer.
    pub fn begin_to_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let slot = slot.to_string();
        let (source, target) = (self.id(from)?, self.id(to)?);
        self.ask::<()>(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source])?;
        self.ask::<()>(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target])
    }

    /// Moves one key of such a slot.
    ///
    /// # Errors
    ///
    /// If the member that has it refuses, or does not answer.
    pub fn move_key(&self, key: &str, from: usize, to: usize) -> io::Result<()> {
        let port = self.members[to].port().to_string();
        self.ask::<()>(from, &["MIGRATE", "127.0.0.1", &port, key, "0", "1000"])
    }

    /// Returns the keys of a slot that are still at this member.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn keys_of(&self, slot: u16, member: usize) -> io::Result<Vec<String>> {
        self.ask(member, &["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"])
    }

    /// Ends the move: the slot belongs to the other member now. All primaries are told, as a resharding tool does.
    ///
    /// # Errors
    ///
    /// If a member refuses, or does not answer.
    pub fn end_to_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, target) = (slot.to_string(), self.id(to)?);
        let others = (0..PRIMARIES).filter(|member| ![to, from].contains(member));
        for member in [to, from].into_iter().chain(others) {
            self.ask::<()>(member, &["CLUSTER", "SETSLOT", &slot, "NODE", &target])?;
        }
        Ok(())
    }

    fn form(&self) -> io::Result<()> {
        for (nth, member) in self.members.iter().enumerate().skip(1) {
            let port = self.members[0].port().to_string();
            let bus = self._buses[0].number().to_string();
            self.ask::<()>(nth, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
                .map_err(|e| io::Error::other(format!("{}: {e}", member.address())))?;
        }
        cluster::all(&self.members, |member| {
            info(member, "cluster_known_nodes") == Some((2 * PRIMARIES).to_string())
        })?;
        for nth in 0..PRIMARIES {
            let slots: Vec<String> = (SLOTS * nth / PRIMARIES..SLOTS * (nth + 1) / PRIMARIES)
                .map(|slot| slot.to_string())
                .collect();
            let command: Vec<&str> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            self.ask::<()>(nth, &command)?;
        }
        for nth in 0..PRIMARIES {
            let primary = self.id(nth)?;
            let replica = PRIMARIES + nth;
            let knows = |_: &Owned| {
                self.ask::<String>(replica, &["CLUSTER", "NODES"]).is_ok_and(|nodes| nodes.contains(&primary))
            };
            cluster::all(&self.members[replica..=replica], knows)?;
            self.ask::<()>(replica, &["CLUSTER", "REPLICATE", &primary])?;
        }
        cluster::all(&self.members, |member| info(member, "cluster_state").as_deref() == Some("ok"))?;
        cluster::all(&self.members[PRIMARIES..], |member| {
            line(&member.own_url(), &["INFO", "replication"], "master_link_status").as_deref() == Some("up")
        })
    }

    fn id(&self, member: usize) -> io::Result<String> {
        self.ask(member, &["CLUSTER", "MYID"])
    }

    fn ask<T: redis::FromRedisValue>(&self, member: usize, command: &[&str]) -> io::Result<T> {
        ask(&self.members[member].own_url(), command)
    }
}

/// Returns one line of a member's answer to `CLUSTER INFO`.
fn info(member: &Owned, name: &str) -> Option<String> {
    line(&member.own_url(), &["CLUSTER", "INFO"], name)
}
