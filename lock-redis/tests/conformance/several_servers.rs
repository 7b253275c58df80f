//! Several Redis servers that clients use as one, as the conformance suite uses them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Identity, OwnServer, OwnServers, Promise, Rises, ThroughProxy, ToldTime};
use lock_conformance::{Abilities, Ability, Data, Facts, Harness, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Options, Result};
use lock_test_servers::{Absence, Owned, Persistence, Program, Settings, ThisProgram, catalogue};

use crate::primaries::Primaries;

/// Servers that were started together, and in what they differ from other such servers.
pub(crate) trait Topology: fmt::Debug + Send + Sync + Sized + 'static {
    /// Their name in reports.
    const WHAT: &str;
    /// The variable in which a process that a case starts finds the URLs of all and of each primary.
    const VARIABLE: &str;
    /// The number of primaries among the servers.
    const PRIMARIES: usize;
    const IDENTITY: Identity;

    fn start(settings: &Settings) -> std::result::Result<Self, Absence>;

    /// Returns the URL with which clients find all of them.
    fn url(&self) -> String;

    /// Returns the servers that have the locks, the primaries first.
    fn servers(&self) -> &[Owned];

    /// Returns the programs that are needed besides.
    fn others(&self) -> &[Owned] {
        &[]
    }

    /// Returns whether clients that name the servers one by one find the primary, too.
    fn can_be_listed() -> std::result::Result<(), Missing>;

    /// Starts a server again that was killed.
    fn restart(server: &Owned, data: Data);
}

/// Runs the suite on servers of this topology.
pub(crate) fn run<T: Topology>() -> Verdict {
    let started = match std::env::var(T::VARIABLE) {
        // A process that a case starts uses the servers of the process that started it.
        Ok(urls) => Ok(Started::<T>::at(&urls)),
        Err(_) => Started::start(&Settings::default()),
    };
    match started {
        Ok(servers) => lock_conformance::run(SeveralServers::new(servers)),
        Err(absence) => absence.verdict(catalogue::REDIS.name),
    }
}

/// The suite's harness.
#[derive(Debug)]
struct SeveralServers<T> {
    servers: Started<T>,
    primaries: Arc<Primaries>,
}

/// The servers, and where clients find them.
#[derive(Debug)]
struct Started<T> {
    /// `None` in a process that a case has started.
    owned: Option<T>,
    url: String,
    primaries: Vec<String>,
}

impl<T: Topology> Started<T> {
    fn start(settings: &Settings) -> std::result::Result<Started<T>, Absence> {
        let owned = T::start(settings)?;
        let primaries = owned.servers()[..T::PRIMARIES].iter().map(|server| server.url().to_owned());
        Ok(Started { url: owned.url(), primaries: primaries.collect(), owned: Some(owned) })
    }

    /// Takes the servers of another process.
    fn at(urls: &str) -> Started<T> {
        let mut urls = urls.split(' ').map(str::to_owned);
        Started { owned: None, url: urls.next().expect("the URL of all"), primaries: urls.collect() }
    }

    /// Returns what [`at`](Started::at) takes.
    fn urls(&self) -> String {
        [std::slice::from_ref(&self.url), &self.primaries].concat().join(" ")
    }

    async fn open(&self, options: Options) -> Result<Client> {
        lock_redis::connect_with(&self.url, options).await
    }

    fn servers(&self) -> &[Owned] {
        self.owned.as_ref().map_or(&[], T::servers)
    }

    fn others(&self) -> &[Owned] {
        self.owned.as_ref().map_or(&[], T::others)
    }
}

impl<T: Topology> SeveralServers<T> {
    fn new(servers: Started<T>) -> SeveralServers<T> {
        let primaries = Arc::new(Primaries::at(&servers.primaries));
        SeveralServers { servers, primaries }
    }

    /// The servers are known by their own addresses, so that no proxy can stand in between. These clients have the list
    /// of the servers instead.
    fn proxy(self: &Arc<Self>) -> Ability<dyn ThroughProxy> {
        T::can_be_listed()?;
        match self.servers.owned {
            Some(_) => Ok(self.clone()),
            None => Err(Missing::because("the servers are another process's")),
        }
    }
}

#[async_trait]
impl<T: Topology> Harness for SeveralServers<T> {
    fn name(&self) -> String {
        match self.servers.servers().first() {
            Some(server) => format!("{} of {}", T::WHAT, server.version()),
            None => T::WHAT.to_owned(),
        }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.servers.open(options).await
    }

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far the clock may be set back.
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let promise = Promise { lease: Lease::Lock, fair: Fair::No, rises, identity: T::IDENTITY };
        let durable = Err(Missing::because(
            "replication is asynchronous: a replica that is promoted may lack the last writes",
        ));
        Facts { told_time: Ok(ToldTime), durable, ..Facts::promising([promise]) }
    }

    /// One that has ended is enough: the cases count on all of them.
    fn server_ended(&self) -> Option<String> {
        self.servers.servers().iter().chain(self.servers.others()).find_map(Owned::ended)
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let clocks =
            Err(Missing::because("leases end by a primary's clock, which the suite sets on one server"));
        Abilities {
            proxy: self.proxy(),
            servers: Ok(self.clone()),
            clocks,
            processes: ThisProgram::again(vec![(T::VARIABLE, self.servers.urls())]),
            program: Program::on(self.servers.url.clone()),
            ..Abilities::none("this harness cannot").with_admin(&self.primaries)
        }
    }
}

#[async_trait]
impl<T: Topology> ThroughProxy for SeveralServers<T> {
    fn addresses(&self) -> Vec<String> {
        addresses(&self.servers)
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        open_list(addresses, options).await
    }
}

#[async_trait]
impl<T: Topology> OwnServers for SeveralServers<T> {
    async fn start(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own(Started::<T>::start(&settings).expect("others were started before")))
    }
}

/// Servers of one case. All that have locks are disturbed together, the primaries first; the other programs go on.
#[derive(Debug)]
struct Own<T>(Started<T>);

#[async_trait]
impl<T: Topology> OwnServer for Own<T> {
    async fn open(&self, options: Options) -> Result<Client> {
        self.0.open(options).await
    }

    fn pause(&mut self) {
        self.0.servers().iter().for_each(|server| server.pause().expect("it runs"));
    }

    fn resume(&mut self) {
        self.0.servers().iter().for_each(|server| server.resume().expect("it was paused"));
    }

    fn kill(&mut self) {
        self.0.servers().iter().for_each(|server| server.kill().expect("it runs"));
    }

    fn start(&mut self, data: Data) {
        self.0.servers().iter().for_each(|server| T::restart(server, data));
    }

    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        T::can_be_listed().is_ok().then_some(self as &dyn ThroughProxy)
    }

    fn url(&self) -> Option<String> {
        Some(self.0.url.clone())
    }
}

#[async_trait]
impl<T: Topology> ThroughProxy for Own<T> {
    fn addresses(&self) -> Vec<String> {
        addresses(&self.0)
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        open_list(addresses, options).await
    }
}

fn addresses<T: Topology>(servers: &Started<T>) -> Vec<String> {
    servers.servers().iter().map(Owned::address).collect()
}

async fn open_list(addresses: &[SocketAddr], options: Options) -> Result<Client> {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    lock_redis::connect_with(&format!("redis://{}", hosts.join(",")), options).await
}
