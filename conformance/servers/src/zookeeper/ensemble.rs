//! An ensemble of three servers, which can be killed and stopped one by one.

use super::super::cluster::{self, Cluster, peers};
use super::super::host::Network;
use super::super::owned::Owned;
use super::super::port::Port;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::{TICK, ZooKeeper, ask};

impl ZooKeeper {
    /// Starts three servers, each on a host of this network if there is one, and waits until each serves.
    ///
    /// # Errors
    ///
    /// If ZooKeeper is missing or does not start.
    pub fn ensemble(settings: &Settings, network: Option<&Network>) -> Result<Cluster, Absence> {
        let ports = cluster::ports(2 * 3)?;
        let settings = introduced(cluster::three(settings, network), &ports);
        let members = cluster::start(&ZooKeeper, &settings)?;
        let url = format!("zk://{}?{TICK}", cluster::addresses(&members));
        Ok(Cluster {
            members,
            url,
            leads: |member| mode(member).is_some_and(|mode| mode == "leader"),
            serves: |member| mode(member).is_some(),
            _ports: ports,
        })
    }
}

fn mode(member: &Owned) -> Option<String> {
    let answer = ask(&member.own_url(), "srvr").ok()?;
    Some(answer.lines().find_map(|line| line.strip_prefix("Mode: "))?.to_owned())
}

/// Tells each member its id, and where it finds the others: each has two ports for them.
fn introduced(members: [Settings; 3], ports: &[Port]) -> Vec<Settings> {
    let mut lines = vec!["initLimit=40".to_owned(), "syncLimit=20".to_owned()];
    for (id, (member, ports)) in (1..).zip(members.iter().zip(ports.chunks(2))) {
        let ports = ports.iter().map(|port| port.number().to_string()).collect::<Vec<_>>();
        lines.push(format!("server.{id}={}:{}", peers(member), ports.join(":")));
    }
    let introduce = |(id, mut member): (u8, Settings)| {
        member.files.push(("myid".to_owned(), id.to_string().into_bytes()));
        Settings { args: lines.iter().cloned().chain(member.args).collect(), ..member }
    };
    (1..).zip(members).map(introduce).collect()
}
