//! Hosts on this machine, each with its own network. They can be cut off from each other while clients still reach all
//! of them.
//!
//! Each host is a network namespace that exists only as long as its processes, so whatever ends the tests ends the
//! network, too. Two virtual cables lead to each host: one from this machine, for clients, and one to a switch that
//! connects all hosts.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::catalogue::NETWORKS;
use super::process::Process;
use super::requirement::{Absence, Requirement};
use super::user::is_root;

/// A process has this long to enter its namespace.
const LIMIT: Duration = Duration::from_secs(5);

/// Hosts that are connected with one another, and with this one.
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Arc<Host>>,
    _switch: Namespace,
}

/// One of the hosts of a [`Network`].
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    clients: Ipv4Addr,
    peers: Ipv4Addr,
}

/// A network namespace, kept by a process that does nothing.
#[derive(Debug)]
struct Namespace(Process);

impl Network {
    /// Makes this many hosts.
    ///
    /// # Errors
    ///
    /// If rights or programs that this needs are missing, or if a network can't be made.
    pub fn of(hosts: u8) -> Result<Network, Absence> {
        let required = Requirement::from_env()?;
        if !is_root() {
            return Err(required.absent(NETWORKS, "a case's own network needs root"));
        }
        Network::make(hosts).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                required.absent(NETWORKS, "a case's own network needs ip (of iproute2), unshare and nsenter")
            }
            _ => Absence::Failure(format!("the network for a case could not be made: {e}")),
        })
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> &[Arc<Host>] {
        &self.hosts
    }

    fn make(hosts: u8) -> io::Result<Network> {
        // If `ip` were missing, `nsenter` would report that in other words.
        ip("-V")?;
        let switch = Namespace::new()?;
        switch.ip("link add switch type bridge")?;
        switch.ip("link set switch up")?;
        let mut tries = 0;
        loop {
            // The addresses are from the range that is reserved for tests of networks. Other tests may use it at the
            // same time.
            let [net, ..] = RandomState::new().hash_one(std::process::id()).to_ne_bytes();
            let made: io::Result<_> = (1..=hosts).map(|n| Host::new(&switch, net, n).map(Arc::new)).collect();
            tries += 1;
            match made {
                Ok(hosts) => return Ok(Network { hosts, _switch: switch }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Host {
    /// Makes host `n`, which is from 1 to 60. Returns `AlreadyExists` if another host has this number in this net.
    fn new(switch: &Namespace, net: u8, n: u8) -> io::Result<Host> {
        let namespace = Namespace::new()?;
        let (of_it, of_switch) = (namespace.0.id(), switch.0.id());
        let peers = Ipv4Addr::new(198, 19, net, n);
        let [ours, clients] = [1, 2].map(|end| Ipv4Addr::new(198, 18, net, 4 * n + end));
        // A name can exist once on this machine. This keeps other tests away from the net.
        let (cable, port) = (format!("lock{net}-{n}"), format!("port{net}-{n}"));
        ip(&format!("link add {cable} type veth peer name clients netns {of_it}"))?;
        ip(&format!("address add {ours}/30 dev {cable}"))?;
        ip(&format!("link set {cable} up"))?;
        ip(&format!("link add {port} netns {of_switch} type veth peer name peers netns {of_it}"))?;
        switch.ip(&format!("link set {port} master switch up"))?;
        namespace.ip("link set lo up")?;
        namespace.ip(&format!("address add {clients}/30 dev clients"))?;
        namespace.ip("link set clients up")?;
        namespace.ip(&format!("address add {peers}/24 dev peers"))?;
        namespace.ip("link set peers up")?;
        Ok(Host { namespace, clients, peers })
    }

    /// Returns the address at which clients find the host.
    pub fn clients(&self) -> Ipv4Addr {
        self.clients
    }

    /// Returns the address at which its peers find the host.
    pub fn peers(&self) -> Ipv4Addr {
        self.peers
    }

    /// Cuts the connection to its peers: what is sent between them is lost, both ways. Clients reach it as before.
    ///
    /// # Errors
    ///
    /// If `ip` fails.
    pub fn cut_off(&self) -> io::Result<()> {
        self.namespace.ip("link set peers down")
    }

    /// Restores the connection to its peers.
    ///
    /// # Errors
    ///
    /// If `ip` fails.
    pub fn reconnect(&self) -> io::Result<()> {
        self.namespace.ip("link set peers up")
    }

    /// Returns a command that runs on this host what `command` would run here.
    pub(super) fn command(&self, command: &Command) -> Command {
        let mut there = self.namespace.command();
        there.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            there.current_dir(folder);
        }
        there
    }
}

impl Namespace {
    fn new() -> io::Result<Namespace> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null());
        let process = Process::spawn(&mut command)?;
        let here = std::fs::read_link("/proc/self/ns/net")?;
        let deadline = Instant::now() + LIMIT;
        while std::fs::read_link(format!("/proc/{}/ns/net", process.id()))? == here {
            if process.ended()?.is_some() || Instant::now() >= deadline {
                return Err(io::Error::other("unshare --net has made no namespace"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Namespace(process))
    }

    /// Returns a command that runs, in this namespace, the words that are added to it.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id()));
        command
    }

    fn ip(&self, words: &str) -> io::Result<()> {
        let mut command = self.command();
        run(command.arg("ip").args(words.split(' ')))
    }
}

fn ip(words: &str) -> io::Result<()> {
    run(Command::new("ip").args(words.split(' ')))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let kind = match said.contains("File exists") {
                true => io::ErrorKind::AlreadyExists,
                false => io::ErrorKind::Other,
            };
            Err(io::Error::new(kind, format!("{command:?}: {}", said.trim())))
        }
    }
}
