//! The harness for a backend whose server the suite itself starts, stops and kills. This module has what all such
//! servers share; a backend implements `Backend` with what is particular to its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, ClockedServer, Count, Durable, Forget, IdleConnection, Interrupt, LockProgram, OneTrip, OwnServer,
    OwnServers, Processes, Replays, Residue, SHORTEST_TTL, ServerClocks, ThroughProxy,
};
use lock_conformance::{Ability, Data, Harness, Missing, Step, Verdict};
use lock_core::{Client, Options, Result};

use super::{Absence, Clock, Owned, Persistence, Product, Program, Server, Settings, ThisProgram, clock};

/// A backend on a server, for [`run_on_server`]. The methods get the server that all cases share, or the URL of any
/// server: of that one, or of one that belongs to one case.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns the product, which says how its server is found or started.
    fn product(&self) -> &'static dyn Product;

    /// Returns the settings with which the server that all cases share is started. No case kills that server.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// Returns what the report calls the server under test.
    fn name(&self, server: &Server) -> String {
        server.to_string()
    }

    /// Returns further environment variables with which this test program, started once more, tests the same server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// See [`Harness::ttl`].
    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }

    /// See [`Harness::proven_at_once`].
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// Opens a client of the server.
    async fn open(&self, url: &str, options: Options) -> Result<Client>;

    /// Returns the address of the server, as `host:port`.
    ///
    /// # Errors
    ///
    /// The reason, if no proxy can stand in front of the server.
    fn address(&self, url: &str) -> Result<String, Missing>;

    /// Opens a client that connects to `address` instead of the server's own, and without TLS: the proxy has to see
    /// what it drops.
    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client>;

    /// See [`ThroughProxy::multiplexes`].
    fn multiplexes(&self) -> bool {
        false
    }

    /// See [`Harness::replays`].
    ///
    /// # Errors
    ///
    /// The reason, if a request is not the same on another connection.
    fn replays(&self) -> Result<Replays, Missing> {
        Ok(Replays)
    }

    /// See [`Harness::grants_in_one_trip`].
    ///
    /// # Errors
    ///
    /// The reason, if the first answer of an attempt does not grant.
    fn grants_in_one_trip(&self) -> Result<OneTrip, Missing> {
        Ok(OneTrip)
    }

    /// See [`Harness::keeps_idle_connections`].
    ///
    /// # Errors
    ///
    /// The reason, if another connection takes the place of one that was silent.
    fn keeps_idle_connections(&self) -> Result<IdleConnection, Missing> {
        Ok(IdleConnection)
    }

    /// Checks that leases end by a clock that can be set. Whether this machine can set clocks is checked after that.
    ///
    /// # Errors
    ///
    /// The reason, if they end by another clock.
    fn ends_leases_by_wall_clock(&self) -> Result<(), Missing> {
        Ok(())
    }

    /// See [`Harness::can_forget`].
    fn can_forget(&self, server: &Server) -> Ability<dyn Forget>;

    /// See [`Harness::can_count`].
    fn can_count(&self, server: &Server) -> Ability<dyn Count>;

    /// See [`Harness::can_count_residue`].
    fn can_count_residue(&self, server: &Server) -> Ability<dyn Residue>;

    /// See [`Harness::can_age`].
    fn can_age(&self, server: &Server) -> Ability<dyn Age>;

    /// See [`Harness::can_interrupt`]. Asked only for a server that was started here.
    fn can_interrupt(&self, server: &Server) -> Ability<dyn Interrupt>;
}

/// Runs the suite on the backend's server: the one that the environment names, or one that is started for it. If there
/// is none, the suite is *not run*; if there had to be one, it has failed.
pub fn run_on_server(backend: impl Backend) -> Verdict {
    let product = backend.product();
    match Server::find_or_start(product, &backend.settings()) {
        Ok(server) => lock_conformance::run(OnServer { backend: Arc::new(backend), server }),
        Err(Absence::NotRun(why)) => lock_conformance::not_run(product.listing().name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(product.listing().name, &why),
    }
}

#[derive(Debug)]
struct OnServer<B> {
    backend: Arc<B>,
    server: Server,
}

#[async_trait]
impl<B: Backend> Harness for OnServer<B> {
    fn name(&self) -> String {
        self.backend.name(&self.server)
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.backend.open(self.server.url(), options).await
    }

    fn ttl(&self) -> Duration {
        self.backend.ttl()
    }

    fn proven_at_once(&self) -> usize {
        self.backend.proven_at_once()
    }

    fn server_ended(&self) -> Option<String> {
        self.server.ended()
    }

    fn missing(&self, what: &str) -> Missing {
        let server = match self.server {
            Server::Contained(_) => "runs in a container",
            _ => "was not started here",
        };
        Missing::because(format!("the server {server}: the suite does not {what}"))
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        self.backend.can_forget(&self.server)
    }

    fn can_count(self: Arc<Self>) -> Ability<dyn Count> {
        self.backend.can_count(&self.server)
    }

    fn can_count_residue(self: Arc<Self>) -> Ability<dyn Residue> {
        self.backend.can_count_residue(&self.server)
    }

    fn can_age(self: Arc<Self>) -> Ability<dyn Age> {
        self.backend.can_age(&self.server)
    }

    fn can_interrupt(self: Arc<Self>) -> Ability<dyn Interrupt> {
        self.is_ours_to(<dyn Interrupt>::WHAT)?;
        self.backend.can_interrupt(&self.server)
    }

    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        Ok(Arc::new(Network::of(&self.backend, self.server.url())?))
    }

    fn replays(&self) -> Result<Replays, Missing> {
        self.backend.replays()
    }

    fn grants_in_one_trip(&self) -> Result<OneTrip, Missing> {
        self.backend.grants_in_one_trip()
    }

    fn keeps_idle_connections(&self) -> Result<IdleConnection, Missing> {
        self.backend.keeps_idle_connections()
    }

    fn can_start_servers(self: Arc<Self>) -> Ability<dyn OwnServers> {
        self.is_ours_to(<dyn OwnServers>::WHAT)?;
        Ok(self)
    }

    fn keeps_data(&self) -> Result<Durable, Missing> {
        self.is_ours_to(Durable::WHAT)?;
        Ok(Durable)
    }

    fn can_set_clocks(self: Arc<Self>) -> Ability<dyn ServerClocks> {
        self.is_ours_to(<dyn ServerClocks>::WHAT)?;
        self.backend.ends_leases_by_wall_clock()?;
        clock::can_be_set()?;
        Ok(self)
    }

    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        let mut environment = self.backend.environment();
        environment.push((self.backend.product().listing().variable, self.server.url().to_owned()));
        ThisProgram::again(environment)
    }

    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Program::on(self.server.url().to_owned())
    }
}

impl<B: Backend> OnServer<B> {
    /// Checks that the server was started here, from a program: only then may a case do this to it, or start another.
    fn is_ours_to(&self, what: &str) -> Result<(), Missing> {
        self.server.owned().map(drop).ok_or_else(|| self.missing(what))
    }

    fn own(&self, settings: &Settings) -> Box<Own<B>> {
        let server = Owned::start(self.backend.product(), settings)
            .expect("a server of this product was started before");
        let network = Network::of(&self.backend, server.url()).ok();
        Box::new(Own { backend: self.backend.clone(), server, network })
    }
}

#[async_trait]
impl<B: Backend> OwnServers for OnServer<B> {
    async fn start(&self) -> Box<dyn OwnServer> {
        self.own(&Settings { persistence: Persistence::EveryWrite, ..Settings::default() })
    }
}

#[async_trait]
impl<B: Backend> ServerClocks for OnServer<B> {
    async fn start(&self) -> Box<dyn ClockedServer> {
        // This server is never restarted, so what it writes would only cost time.
        self.own(&Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

/// The network in front of a server.
#[derive(Debug)]
struct Network<B> {
    backend: Arc<B>,
    url: String,
    address: String,
}

impl<B: Backend> Network<B> {
    fn of(backend: &Arc<B>, url: &str) -> Result<Network<B>, Missing> {
        let address = backend.address(url)?;
        Ok(Network { backend: backend.clone(), url: url.to_owned(), address })
    }
}

#[async_trait]
impl<B: Backend> ThroughProxy for Network<B> {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.backend.open_through(&self.url, addresses[0], options).await
    }

    fn multiplexes(&self) -> bool {
        self.backend.multiplexes()
    }
}

/// A server that belongs to one case.
#[derive(Debug)]
struct Own<B> {
    backend: Arc<B>,
    server: Owned,
    network: Option<Network<B>>,
}

#[async_trait]
impl<B: Backend> OwnServer for Own<B> {
    async fn open(&self, options: Options) -> Result<Client> {
        self.backend.open(self.server.url(), options).await
    }

    fn pause(&mut self) {
        self.server.pause().expect("it runs");
    }

    fn resume(&mut self) {
        self.server.resume().expect("it was paused");
    }

    fn kill(&mut self) {
        self.server.kill().expect("it runs");
    }

    fn start(&mut self, data: Data) {
        self.server.restart(data).expect("it starts again");
    }

    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        Some(self.network.as_ref()?)
    }

    fn url(&self) -> Option<String> {
        Some(self.server.url().to_owned())
    }
}

impl<B: Backend> ClockedServer for Own<B> {
    fn step_clock(&mut self, step: Step) {
        self.server.step_clock(step).expect("its clock can be set");
    }
}
