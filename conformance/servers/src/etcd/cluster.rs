//! A cluster of three members, which can be killed and stopped one by one.

use std::io;

use super::super::host::Network;
use super::super::owned::Owned;
use super::super::port::Port;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::super::together::{self, peers};
use super::{Etcd, get, greet};

/// A cluster of three members that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Owned>,
    /// The ports at which they find each other.
    _ports: Vec<Port>,
}

/// The election timeout, in milliseconds. These members wait for each other's heartbeats. On a busy machine they must not
/// hold elections without need.
const ELECTION: &str = "500";

impl EtcdCluster {
    /// Starts three members, and waits until each can write.
    ///
    /// # Errors
    ///
    /// If etcd is missing or does not start.
    pub fn start(settings: &Settings) -> Result<EtcdCluster, Absence> {
        EtcdCluster::of(together::here(settings))
    }

    /// Does the same, with each member on a host of its own.
    ///
    /// # Errors
    ///
    /// If etcd is missing or does not start.
    pub fn start_on(network: &Network, settings: &Settings) -> Result<EtcdCluster, Absence> {
        EtcdCluster::of(together::on(network, settings))
    }

    fn of(members: [Settings; 3]) -> Result<EtcdCluster, Absence> {
        let ports: io::Result<Vec<Port>> = members.iter().map(|_| Port::free()).collect();
        let ports = ports.map_err(|e| Absence::Failure(format!("no cluster: {e}")))?;
        let members = together::start(&Etcd, &introduced(members, &ports))?;
        Ok(EtcdCluster { members, _ports: ports })
    }

    /// Returns the URL for clients, which names all members.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(Owned::address).collect();
        format!("etcd://{}?election={ELECTION}ms", hosts.join(","))
    }

    /// Returns its members.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Waits until a member that answers leads, and returns which one.
    ///
    /// # Errors
    ///
    /// If there is none in time.
    pub fn leader(&self) -> io::Result<usize> {
        together::one(&self.members, "leader", |member| {
            get(&member.own_url(), "/metrics").is_ok_and(|all| all.contains("\netcd_server_is_leader 1\n"))
        })
    }

    /// Waits until every member can write again.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_whole(&self) -> io::Result<()> {
        together::all(&self.members, |member| greet(&member.own_url()).is_ok())
    }
}

/// Tells each member its name, and where it finds the others. Of an argument that is given twice, the last one counts.
fn introduced(members: [Settings; 3], ports: &[Port]) -> Vec<Settings> {
    let address = |(member, port): (_, &Port)| format!("http://{}:{}", peers(member), port.number());
    let addresses: Vec<String> = members.iter().zip(ports).map(address).collect();
    let named = addresses.iter().enumerate().map(|(n, address)| format!("n{n}={address}"));
    let all = named.collect::<Vec<_>>().join(",");
    let introduce = |(n, (member, address)): (usize, (Settings, &String))| {
        let name = format!("n{n}");
        let args = ["--name", &name, "--initial-cluster", &all, "--listen-peer-urls", address];
        let args = args.into_iter().chain(["--initial-advertise-peer-urls", address]);
        let args =
            args.chain(["--heartbeat-interval", "50", "--election-timeout", ELECTION]).map(str::to_owned);
        Settings { args: args.chain(member.args).collect(), ..member }
    };
    members.into_iter().zip(&addresses).enumerate().map(introduce).collect()
}
