//! Runs the conformance suite on Redlock, on five Redis servers.

mod nodes;

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{self, Absence, Persistence, Program, Settings, catalogue};
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Verdict};
use lock_core::{Client, Name, Options, Result};

use nodes::{FIVE, MAX_TTL, Nodes};

fn main() -> Verdict {
    let nodes = match std::env::var(NODES) {
        // A process that a case starts uses the servers of the process that started it.
        Ok(urls) => Ok(Nodes::at(urls.split(',').map(str::to_owned).collect())),
        Err(_) => Nodes::start(FIVE, MAX_TTL, &Settings::default()),
    };
    match nodes {
        Ok(nodes) => lock_conformance::run(Redlock { nodes }),
        Err(Absence::NotRun(why)) => lock_conformance::not_run(catalogue::REDIS.name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(catalogue::REDIS.name, &why),
    }
}

/// The longest ttl on a case's own servers, which is also how long they have no vote after a restart.
const SHORT: Duration = Duration::from_secs(4);

/// The variable in which such a process finds their URLs.
const NODES: &str = "LOCK_TEST_REDLOCK";

#[derive(Debug)]
struct Redlock {
    nodes: Nodes,
}

#[async_trait]
impl Harness for Redlock {
    fn name(&self) -> String {
        format!("redlock, {}", self.nodes)
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.nodes.open(options).await
    }

    /// Each of five servers, which share the machine, gets two requests of half a thousand bytes, one after the other.
    /// A network that brings one byte in a millisecond, or in two, has five thirds of this for both requests and a
    /// renewal.
    fn ttl(&self) -> Duration {
        Duration::from_millis(1200)
    }

    fn can(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Process if cfg!(unix) => Ok(()),
            Need::Process => Err("another process is started on Unix only".to_owned()),
            Need::Program | Need::OwnProgram => Program::find().map(drop).map_err(Absence::reason),
            Need::ServerClock => servers::clock::can_be_set(),
            _ => Ok(()),
        }
    }

    fn url(&self) -> String {
        self.nodes.url()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![(NODES, self.nodes.urls().join(","))]
    }

    async fn forget(&self, name: &Name) {
        self.nodes.forget(name.as_str()).await;
    }

    async fn counters(&self) -> Counters {
        self.nodes.counters().await
    }

    async fn residue(&self) -> u64 {
        self.nodes.residue().await
    }

    async fn kept(&self) -> u64 {
        self.nodes.kept().await
    }

    async fn age(&self, by: Duration) {
        self.nodes.age(by).await;
    }

    async fn interrupt(&self) {
        self.nodes.interrupt().await;
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.nodes.behind(addresses).open(options).await
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own(Nodes::start(FIVE, SHORT, &settings).expect("others were started before")))
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        let settings =
            Settings { persistence: Persistence::None, clock: servers::Clock::Own, ..Settings::default() };
        Box::new(Own(Nodes::start(FIVE, SHORT, &settings).expect("others were started before")))
    }
}

/// Servers of one case, which are disturbed together.
#[derive(Debug)]
struct Own(Nodes);

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

    fn url(&self) -> String {
        self.0.url()
    }

    fn step_clock(&mut self, step: lock_conformance::Step) {
        self.0.servers().iter().for_each(|server| server.step_clock(step).expect("its clock can be set"));
    }

    fn addresses(&self) -> Vec<String> {
        self.0.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.0.behind(addresses).open(options).await
    }

    fn recovers_in(&self) -> Duration {
        self.0.max_ttl()
    }
}
