//! An ensemble of three servers, which can be killed and stopped one by one.

use std::io;

use super::super::host::Network;
use super::super::owned::Owned;
use super::super::port::Port;
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::super::together::{self, peers};
use super::{TICK, ZooKeeper, ask};

/// An ensemble of three servers that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Owned>,
    /// The ports at which they find each other.
    _ports: Vec<Port>,
}

impl Ensemble {
    /// Starts three servers, and waits until each serves.
    ///
    /// # Errors
    ///
    /// If ZooKeeper is missing or does not start.
    pub fn start(settings: &Settings) -> Result<Ensemble, Absence> {
        Ensemble::of(together::here(settings))
    }

    /// Does the same, with each server on a host of its own.
    ///
    /// # Errors
    ///
    /// If ZooKeeper is missing or does not start.
    pub fn start_on(network: &Network, settings: &Settings) -> Result<Ensemble, Absence> {
        Ensemble::of(together::on(network, settings))
    }

    fn of(members: [Settings; 3]) -> Result<Ensemble, Absence> {
        let ports: io::Result<Vec<Port>> = (0..2 * members.len()).map(|_| Port::free()).collect();
        let ports = ports.map_err(|e| Absence::Failure(format!("no ensemble: {e}")))?;
        let members = together::start(&ZooKeeper, &introduced(members, &ports))?;
        Ok(Ensemble { members, _ports: ports })
    }

    /// Returns the URL for clients, which names all members.
    pub fn url(&self) -> String {
        format!("zk://{}?{TICK}", self.members.iter().map(Owned::address).collect::<Vec<_>>().join(","))
    }

    /// Returns its members.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Waits until a member leads, and returns which one.
    ///
    /// # Errors
    ///
    /// If none leads in time.
    pub fn leader(&self) -> io::Result<usize> {
        together::one(&self.members, "leader", |member| mode(member).is_some_and(|mode| mode == "leader"))
    }

    /// Waits until every member leads or follows again.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_whole(&self) -> io::Result<()> {
        together::all(&self.members, |member| mode(member).is_some())
    }
}

fn mode(member: &Owned) -> Option<String> {
    let answer = ask(&member.address(), "srvr").ok()?;
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
