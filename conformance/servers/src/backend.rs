//! The harness for a backend whose server the suite itself starts, stops and kills. This module has what all such
//! servers share; a backend implements `Backend` with what is particular to its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Name, Options, Result};

use crate::harness::{self, Counters, Data, Harness, Need, OwnServer, Step};
use crate::runner::{self, Verdict};
use crate::servers::{self, Absence, Clock, Owned, Persistence, Product, Program, Server, Settings};

/// A backend on a server, for [`run_on_server`]. The methods get the server's URL: that of the server that all cases
/// share, or that of a server that belongs to one case.
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
        harness::SHORTEST_TTL
    }

    /// See [`Harness::multiplexes`].
    fn multiplexes(&self) -> bool {
        false
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
    fn address(&self, url: &str) -> Result<String, String>;

    /// Opens a client that connects to `address` instead of the server's own, and without TLS: the proxy has to see
    /// what it drops.
    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client>;

    /// Checks whether the backend can do this with the server's data. Called for [`Need::Forget`], [`Need::Counters`],
    /// [`Need::Residue`], [`Need::Age`], [`Need::Replay`], [`Need::OneTrip`], [`Need::IdleConnection`],
    /// [`Need::Interrupt`] and [`Need::ServerClock`] only.
    ///
    /// # Errors
    ///
    /// The reason, if it cannot.
    fn can(&self, need: Need, server: &Server) -> Result<(), String>;

    /// See [`Harness::forget`].
    async fn forget(&self, _url: &str, name: &Name) {
        unreachable!("{} {name}", Need::Forget)
    }

    /// See [`Harness::counters`].
    async fn counters(&self, _url: &str) -> Counters {
        unreachable!("{}", Need::Counters)
    }

    /// See [`Harness::residue`].
    async fn residue(&self, _url: &str) -> u64 {
        unreachable!("{}", Need::Residue)
    }

    /// See [`Harness::kept`].
    async fn kept(&self, _url: &str) -> u64 {
        unreachable!("{}", Need::Age)
    }

    /// See [`Harness::age`].
    async fn age(&self, _url: &str, by: Duration) {
        unreachable!("{} {by:?}", Need::Age)
    }

    /// See [`Harness::interrupt`]. Called only for a server that the suite has started.
    async fn interrupt(&self, _url: &str) {
        unreachable!("{}", Need::Interrupt)
    }
}

/// Runs the suite on the backend's server: the one that the environment names, or one that is started for it. If there
/// is none, the suite is *not run*; if there had to be one, it has failed.
pub fn run_on_server(backend: impl Backend) -> Verdict {
    let product = backend.product();
    match Server::find_or_start(product, &backend.settings()) {
        Ok(server) => runner::run(OnServer { backend: Arc::new(backend), server }),
        Err(Absence::NotRun(why)) => runner::not_run(product.listing().name, &why),
        Err(Absence::Failure(why)) => runner::failed(product.listing().name, &why),
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

    fn can(&self, need: Need) -> Result<(), String> {
        let program = || Program::find().map(drop).map_err(Absence::reason);
        match need {
            Need::Forget | Need::Counters | Need::Residue | Need::Age => self.backend.can(need, &self.server),
            Need::Replay | Need::OneTrip | Need::IdleConnection => self.backend.can(need, &self.server),
            Need::Proxy => self.backend.address(self.server.url()).map(drop),
            Need::Process if cfg!(unix) => Ok(()),
            Need::Process => Err("another process is started on Unix only".to_owned()),
            Need::Program => program(),
            _ if self.server.owned().is_none() => {
                let what = match self.server {
                    Server::Contained(_) => "runs in a container",
                    _ => "was not started here",
                };
                Err(format!("the server {what}: the suite does not {need}"))
            }
            Need::Interrupt => self.backend.can(need, &self.server),
            Need::OwnServer | Need::Durable => Ok(()),
            Need::ServerClock => {
                self.backend.can(need, &self.server).and_then(|()| servers::clock::can_be_set())
            }
            Need::OwnProgram => program(),
        }
    }

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = self.backend.environment();
        environment.push((self.backend.product().listing().variable, self.url()));
        environment
    }

    async fn forget(&self, name: &Name) {
        self.backend.forget(self.server.url(), name).await;
    }

    async fn counters(&self) -> Counters {
        self.backend.counters(self.server.url()).await
    }

    async fn residue(&self) -> u64 {
        self.backend.residue(self.server.url()).await
    }

    async fn kept(&self) -> u64 {
        self.backend.kept(self.server.url()).await
    }

    async fn age(&self, by: Duration) {
        self.backend.age(self.server.url(), by).await;
    }

    async fn interrupt(&self) {
        self.backend.interrupt(self.server.url()).await;
    }

    fn multiplexes(&self) -> bool {
        self.backend.multiplexes()
    }

    fn proven_at_once(&self) -> usize {
        self.backend.proven_at_once()
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.backend.address(self.server.url()).expect(ASKED)]
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.backend.open_through(self.server.url(), addresses[0], options).await
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        self.own(&Settings { persistence: Persistence::EveryWrite, ..Settings::default() })
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        // This server is never restarted, so what it writes would only cost time.
        self.own(&Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

const ASKED: &str = "the case was selected because a proxy can stand in front of the server";

impl<B: Backend> OnServer<B> {
    fn own(&self, settings: &Settings) -> Box<dyn OwnServer> {
        let server = Owned::start(self.backend.product(), settings)
            .expect("a server of this product was started before");
        Box::new(Own { backend: self.backend.clone(), server })
    }
}

/// A server that belongs to one case.
#[derive(Debug)]
struct Own<B> {
    backend: Arc<B>,
    server: Owned,
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

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    fn step_clock(&mut self, step: Step) {
        self.server.step_clock(step).expect("its clock can be set");
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.backend.address(self.server.url()).expect(ASKED)]
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.backend.open_through(self.server.url(), addresses[0], options).await
    }
}
