//! A cluster of three members, which can be killed and stopped one by one.

use super::super::cluster::{self, Cluster, peers};
use super::super::host::Network;
use super::super::port::Port;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::{Etcd, get, greet};

/// The election timeout, in milliseconds. These members wait for each other's heartbeats. On a busy machine they must not
/// hold elections without need.
const ELECTION: &str = "500";

impl Etcd {
    /// Starts three members, each on a host of this network if there is one, and waits until each can write.
    ///
    /// # Errors
    ///
    /// If etcd is missing or does not start.
    pub fn cluster(settings: &Settings, network: Option<&Network>) -> Result<Cluster, Absence> {
        let ports = cluster::ports(3)?;
        let settings = introduced(cluster::three(settings, network), &ports);
        let members = cluster::start(&Etcd, &settings)?;
        let url = format!("etcd://{}?election={ELECTION}ms", cluster::addresses(&members));
        Ok(Cluster {
            members,
            url,
            leads: |member| {
                let metrics = get(&member.own_url(), "/metrics");
                metrics.is_ok_and(|all| all.contains("\netcd_server_is_leader 1\n"))
            },
            serves: |member| greet(&member.own_url()).is_ok(),
            _ports: ports,
        })
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
