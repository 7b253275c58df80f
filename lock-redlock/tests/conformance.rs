//! Runs the conformance suite on Redlock, on five Redis servers.

mod nodes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, ClockedServer, Count, Forget, Identity, Interrupt, OwnServer, OwnServers, Promise, Residue, Rises,
    ServerClocks, ThroughProxy,
};
use lock_conformance::{Abilities, Counters, Data, Facts, Harness, Missing, Step, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_test_servers::{Clock, Owned, Persistence, Program, Settings, ThisProgram, catalogue, clock};

use nodes::{FIVE, MAX_TTL, Nodes};

fn main() -> Verdict {
    let nodes = match std::env::var(NODES) {
        // A process that a case starts uses the servers of the process that started it.
        Ok(urls) => Ok(Nodes::at(urls.split(',').map(str::to_owned).collect())),
        Err(_) => Nodes::start(FIVE, MAX_TTL, &Settings::default()),
    };
    match nodes {
        Ok(nodes) => lock_conformance::run(Redlock { nodes }),
        Err(absence) => absence.verdict(catalogue::REDIS.name),
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

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far clocks may be set back.
        let rises = Rises::WhileAMajorityKeepsItsData { clock_step: Duration::from_secs(3600) };
        let promise = Promise { lease: Lease::Lock, fair: Fair::No, rises, identity: Identity::Told };
        Facts {
            // Each of five servers, which share the machine, gets two requests of half a thousand bytes, one after the
            // other. A network that brings one byte in a millisecond, or in two, has five thirds of this for both
            // requests and a renewal.
            ttl: Duration::from_millis(1200),
            // A proposed token is so far above the clocks of the nodes.
            age_too_short_by: Duration::from_millis(20),
            ..Facts::promising([promise])
        }
    }

    /// One that has ended is enough: the cases count on all of them.
    fn server_ended(&self) -> Option<String> {
        self.nodes.servers().iter().find_map(Owned::ended)
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            proxy: Ok(self.clone()),
            servers: Ok(self.clone()),
            clocks: clock::can_be_set().map(|()| self.clone() as _).map_err(Missing::from),
            processes: ThisProgram::again(vec![(NODES, self.nodes.urls().join(","))]),
            program: Program::on(self.nodes.url()),
            ..Abilities::none("this harness cannot").with_admin(&self)
        }
    }
}

#[async_trait]
impl Forget for Redlock {
    async fn forget(&self, name: &Name) {
        self.nodes.forget(name.as_str()).await;
    }
}

#[async_trait]
impl Count for Redlock {
    async fn counters(&self) -> Counters {
        self.nodes.counters().await
    }
}

#[async_trait]
impl Residue for Redlock {
    async fn residue(&self) -> u64 {
        self.nodes.residue().await
    }
}

#[async_trait]
impl Age for Redlock {
    async fn kept(&self) -> u64 {
        self.nodes.kept().await
    }

    async fn age(&self, by: Duration) {
        self.nodes.age(by).await;
    }
}

#[async_trait]
impl Interrupt for Redlock {
    async fn interrupt(&self) {
        self.nodes.interrupt().await;
    }
}

#[async_trait]
impl ThroughProxy for Redlock {
    fn addresses(&self) -> Vec<String> {
        self.nodes.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.nodes.behind(addresses).open(options).await
    }
}

#[async_trait]
impl OwnServers for Redlock {
    async fn start(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own::start(&settings))
    }
}

#[async_trait]
impl ServerClocks for Redlock {
    async fn start(&self) -> Box<dyn ClockedServer> {
        let settings = Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() };
        Box::new(Own::start(&settings))
    }
}

/// Servers of one case, which are disturbed together.
#[derive(Debug)]
struct Own(Nodes);

impl Own {
    fn start(settings: &Settings) -> Own {
        Own(Nodes::start(FIVE, SHORT, settings).expect("others were started before"))
    }
}

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

    fn recovers_in(&self) -> Duration {
        self.0.max_ttl()
    }

    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        Some(self)
    }

    fn url(&self) -> Option<String> {
        Some(self.0.url())
    }
}

#[async_trait]
impl ThroughProxy for Own {
    fn addresses(&self) -> Vec<String> {
        self.0.addresses()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.0.behind(addresses).open(options).await
    }
}

impl ClockedServer for Own {
    fn step_clock(&mut self, step: Step) {
        self.0.servers().iter().for_each(|server| server.step_clock(step).expect("its clock can be set"));
    }
}
