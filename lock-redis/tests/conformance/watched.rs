//! A primary with two replicas and three sentinels, as the conformance suite uses them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, Count, Durable, Forget, Identity, IdleConnection, Interrupt, LockProgram, OneTrip, OwnServer,
    OwnServers, Processes, Promise, Replays, Residue, Rises, ServerClocks, ThroughProxy,
};
use lock_conformance::{Ability, Data, Harness, Missing};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Options, Result};
use lock_test_servers::{
    Absence, Owned, Persistence, Program, RedisReplicas, RedisSentinels, SentinelSettings, Settings,
    ThisProgram,
};

use crate::admin::Admin;

/// The variable in which a process that a case starts finds the URLs of the sentinels and of the primary.
pub(crate) const SENTINELS: &str = "LOCK_TEST_SENTINELS";

/// No case of the suite is about a failover: what stands still or is restarted is to come back as it was.
const NO_FAILOVER: Duration = Duration::from_secs(60);

/// The suite's harness.
#[derive(Debug)]
pub(crate) struct Sentinel {
    servers: Watched,
    admin: Arc<Admin>,
}

/// The servers, and where clients find them.
#[derive(Debug)]
pub(crate) struct Watched {
    /// `None` in a process that a case has started.
    owned: Option<(RedisReplicas, RedisSentinels)>,
    url: String,
    primary: String,
}

impl Watched {
    pub(crate) fn start(settings: &Settings) -> std::result::Result<Watched, Absence> {
        let replicas = RedisReplicas::start(settings)?;
        let watching = SentinelSettings { down_after: NO_FAILOVER, ..SentinelSettings::default() };
        let sentinels = RedisSentinels::watch(&replicas, &watching)?;
        let (url, primary) = (sentinels.url(""), replicas.servers()[0].url().to_owned());
        Ok(Watched { owned: Some((replicas, sentinels)), url, primary })
    }

    /// Takes the servers of another process.
    pub(crate) fn at(urls: &str) -> Watched {
        let (url, primary) = urls.split_once(' ').expect("two URLs");
        Watched { owned: None, url: url.to_owned(), primary: primary.to_owned() }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        lock_redis::connect_with(&self.url, options).await
    }

    fn addresses(&self) -> Vec<String> {
        self.servers().iter().map(Owned::address).collect()
    }

    /// Returns the primary and its replicas, in this order.
    fn servers(&self) -> &[Owned] {
        self.owned.as_ref().map_or(&[], |(replicas, _)| replicas.servers())
    }

    fn sentinels(&self) -> &[Owned] {
        self.owned.as_ref().map_or(&[], |(_, sentinels)| sentinels.members())
    }
}

impl Sentinel {
    pub(crate) fn new(servers: Watched) -> Sentinel {
        let admin = Arc::new(Admin::of(&servers.primary));
        Sentinel { servers, admin }
    }
}

#[async_trait]
impl Harness for Sentinel {
    fn name(&self) -> String {
        match self.servers.servers().first() {
            Some(primary) => format!("sentinel, a primary and 2 replicas of {}", primary.version()),
            None => "sentinel".to_owned(),
        }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.servers.open(options).await
    }

    /// docs/semantics.md has the hour: how far the clock may be set back.
    fn promised(&self) -> Vec<Promise> {
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        vec![Promise { lease: Lease::Lock, fair: Fair::No, rises, identity: Identity::Told }]
    }

    /// One that has ended is enough: the cases count on all of them.
    fn server_ended(&self) -> Option<String> {
        self.servers.servers().iter().chain(self.servers.sentinels()).find_map(Owned::ended)
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        Ok(self.admin.clone())
    }

    fn can_count(self: Arc<Self>) -> Ability<dyn Count> {
        Ok(self.admin.clone())
    }

    fn can_count_residue(self: Arc<Self>) -> Ability<dyn Residue> {
        Ok(self.admin.clone())
    }

    fn can_age(self: Arc<Self>) -> Ability<dyn Age> {
        Ok(self.admin.clone())
    }

    fn can_interrupt(self: Arc<Self>) -> Ability<dyn Interrupt> {
        Ok(self.admin.clone())
    }

    /// Sentinels tell the servers' own addresses, so that no proxy can stand in between. These clients have the list of
    /// the servers instead.
    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        match self.servers.owned {
            Some(_) => Ok(self),
            None => Err(Missing::because("the servers are another process's")),
        }
    }

    fn replays(&self) -> std::result::Result<Replays, Missing> {
        Ok(Replays)
    }

    fn grants_in_one_trip(&self) -> std::result::Result<OneTrip, Missing> {
        Ok(OneTrip)
    }

    fn keeps_idle_connections(&self) -> std::result::Result<IdleConnection, Missing> {
        Ok(IdleConnection)
    }

    fn can_start_servers(self: Arc<Self>) -> Ability<dyn OwnServers> {
        Ok(self)
    }

    fn keeps_data(&self) -> std::result::Result<Durable, Missing> {
        Err(Missing::because(
            "replication is asynchronous: a replica that is promoted may lack the last writes",
        ))
    }

    fn can_set_clocks(self: Arc<Self>) -> Ability<dyn ServerClocks> {
        Err(Missing::because("leases end by the primary's clock, which the suite sets on one server"))
    }

    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        let urls = format!("{} {}", self.servers.url, self.servers.primary);
        ThisProgram::again(vec![(SENTINELS, urls)])
    }

    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Program::on(self.servers.url.clone())
    }
}

#[async_trait]
impl ThroughProxy for Sentinel {
    fn addresses(&self) -> Vec<String> {
        self.servers.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        open_list(addresses, options).await
    }
}

#[async_trait]
impl OwnServers for Sentinel {
    async fn start(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own(Watched::start(&settings).expect("others were started before")))
    }
}

/// Servers of one case. The primary and the replicas are disturbed together, the primary first; the sentinels go on.
#[derive(Debug)]
struct Own(Watched);

#[async_trait]
impl OwnServer for Own {
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
        self.0.servers().iter().for_each(|server| server.restart(data).expect("it starts again"));
    }

    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        Some(self)
    }

    fn url(&self) -> Option<String> {
        Some(self.0.url.clone())
    }
}

#[async_trait]
impl ThroughProxy for Own {
    fn addresses(&self) -> Vec<String> {
        self.0.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        open_list(addresses, options).await
    }
}

async fn open_list(addresses: &[SocketAddr], options: Options) -> Result<Client> {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    lock_redis::connect_with(&format!("redis://{}", hosts.join(",")), options).await
}
