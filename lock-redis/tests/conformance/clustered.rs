//! A cluster of three primaries with a replica each, as the conformance suite uses it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, Count, Durable, Forget, Identity, IdleConnection, Interrupt, LockProgram, OneTrip, OwnServer,
    OwnServers, Processes, Promise, Replays, Residue, Rises, ServerClocks, ThroughProxy,
};
use lock_conformance::{Ability, Counters, Data, Harness, Missing};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_test_servers::{
    Absence, Owned, Persistence, Program, RedisAdmin, RedisCluster, Settings, ThisProgram,
};

use crate::admin::Admin;

/// The variable in which a process that a case starts finds the URLs of the cluster and of its primaries.
pub(crate) const CLUSTER: &str = "LOCK_TEST_CLUSTER";

/// The suite's harness.
#[derive(Debug)]
pub(crate) struct Cluster {
    servers: Clustered,
    admin: Arc<Admins>,
}

/// The members, and where clients find them.
#[derive(Debug)]
pub(crate) struct Clustered {
    /// `None` in a process that a case has started.
    owned: Option<RedisCluster>,
    url: String,
    primaries: Vec<String>,
}

impl Clustered {
    pub(crate) fn start(settings: &Settings) -> std::result::Result<Clustered, Absence> {
        let cluster = RedisCluster::start(settings)?;
        let primaries = cluster.members()[..3].iter().map(|member| member.url().to_owned()).collect();
        Ok(Clustered { url: cluster.url(""), primaries, owned: Some(cluster) })
    }

    /// Takes the servers of another process.
    pub(crate) fn at(urls: &str) -> Clustered {
        let mut urls = urls.split(' ').map(str::to_owned);
        Clustered { owned: None, url: urls.next().expect("the cluster's"), primaries: urls.collect() }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        lock_redis::connect_with(&self.url, options).await
    }

    fn members(&self) -> &[Owned] {
        self.owned.as_ref().map_or(&[], RedisCluster::members)
    }
}

impl Cluster {
    pub(crate) fn new(servers: Clustered) -> Cluster {
        let admin = Arc::new(Admins { primaries: servers.primaries.clone() });
        Cluster { servers, admin }
    }
}

#[async_trait]
impl Harness for Cluster {
    fn name(&self) -> String {
        match self.servers.members().first() {
            Some(member) => format!("a cluster of 3 primaries and 3 replicas of {}", member.version()),
            None => "cluster".to_owned(),
        }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.servers.open(options).await
    }

    /// docs/semantics.md has the hour: how far the clock may be set back.
    fn promised(&self) -> Vec<Promise> {
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        vec![Promise { lease: Lease::Lock, fair: Fair::No, rises, identity: Identity::NotPromised }]
    }

    /// One that has ended is enough: the cases count on all of them.
    fn server_ended(&self) -> Option<String> {
        self.servers.members().iter().find_map(Owned::ended)
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

    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        Err(Missing::because("members tell each other's own addresses: no proxy can stand in between"))
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
        Err(Missing::because("leases end by a primary's clock, which the suite sets on one server"))
    }

    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        let urls = [std::slice::from_ref(&self.servers.url), &self.servers.primaries].concat();
        ThisProgram::again(vec![(CLUSTER, urls.join(" "))])
    }

    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Program::on(self.servers.url.clone())
    }
}

#[async_trait]
impl OwnServers for Cluster {
    async fn start(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own(Clustered::start(&settings).expect("others were started before")))
    }
}

/// A cluster of one case. All members are disturbed together.
#[derive(Debug)]
struct Own(Clustered);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        self.0.open(options).await
    }

    fn pause(&mut self) {
        self.0.members().iter().for_each(|member| member.pause().expect("it runs"));
    }

    fn resume(&mut self) {
        self.0.members().iter().for_each(|member| member.resume().expect("it was paused"));
    }

    fn kill(&mut self) {
        self.0.members().iter().for_each(|member| member.kill().expect("it runs"));
    }

    /// A member that loses its data keeps its place in the cluster.
    fn start(&mut self, data: Data) {
        for member in self.0.members() {
            if data == Data::Lost {
                std::fs::remove_dir_all(member.folder().join("appendonlydir")).expect("it wrote there");
            }
            member.restart(Data::Kept).expect("it starts again");
        }
    }

    fn url(&self) -> Option<String> {
        Some(self.0.url.clone())
    }
}

/// What the suite reads of the primaries, and does to them.
#[derive(Debug)]
struct Admins {
    primaries: Vec<String>,
}

impl Admins {
    fn each(&self) -> impl Iterator<Item = Admin> {
        self.primaries.iter().map(|url| Admin::of(url))
    }
}

#[async_trait]
impl Forget for Admins {
    async fn forget(&self, name: &Name) {
        let mut forgot = 0;
        for url in &self.primaries {
            let mut admin = RedisAdmin::of(url).await;
            let mut forget = redis::cmd("DEL");
            // The primaries that do not have the name's slot refuse.
            let deleted = forget.arg(name.as_str()).query_async::<u64>(admin.connection()).await;
            forgot += deleted.unwrap_or(0);
        }
        assert_eq!(forgot, 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Admins {
    async fn counters(&self) -> Counters {
        let mut all = Counters { requests: 0, writes: 0 };
        for admin in self.each() {
            let Counters { requests, writes } = admin.counters().await;
            all = Counters { requests: all.requests + requests, writes: all.writes + writes };
        }
        all
    }
}

#[async_trait]
impl Residue for Admins {
    async fn residue(&self) -> u64 {
        let mut all = 0;
        for admin in self.each() {
            all += admin.residue().await;
        }
        all
    }
}

#[async_trait]
impl Age for Admins {
    async fn kept(&self) -> u64 {
        let mut all = 0;
        for admin in self.each() {
            all += admin.kept().await;
        }
        all
    }

    async fn age(&self, by: Duration) {
        for admin in self.each() {
            admin.age(by).await;
        }
    }
}

#[async_trait]
impl Interrupt for Admins {
    async fn interrupt(&self) {
        for admin in self.each() {
            admin.interrupt().await;
        }
    }
}
