//! The harness of a backend on a server that the suite starts, stops and hurts by itself. What is the same for all such
//! servers is here; a backend says what is particular to its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Name, Options, Result};

use crate::harness::{self, Counters, Data, Harness, Need, OwnServer, Step};
use crate::runner::{self, Verdict};
use crate::servers::{self, Absence, Clock, Owned, Persistence, Product, Program, Server, Settings};

/// A backend on a server, for [`run_on_server`]. A server is told by its URL: one that all cases share, or a case's own.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The server, as it is found or started.
    fn product(&self) -> &'static dyn Product;

    /// How the server that all cases share is started. None of them kills it.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// On what it is tested, for the report.
    fn name(&self, server: &Server) -> String {
        server.to_string()
    }

    /// Further environment in which this test program, started once more, tests the same server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// As [`Harness::ttl`].
    fn ttl(&self) -> Duration {
        harness::SHORTEST_TTL
    }

    /// As [`Harness::multiplexes`].
    fn multiplexes(&self) -> bool {
        false
    }

    /// As [`Harness::proven_at_once`].
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// A client of the server.
    async fn open(&self, url: &str, options: Options) -> Result<Client>;

    /// Where the server listens, as `host:port`; if no proxy can stand before it, why.
    fn address(&self, url: &str) -> Result<String, String>;

    /// A client that takes `address` for the server's, and speaks without TLS: the proxy has to see what it loses.
    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client>;

    /// Whether it can do this with the server's data; if not, why. Asked of what follows, and of nothing else.
    fn can(&self, need: Need, server: &Server) -> Result<(), String>;

    /// As [`Harness::forget`].
    async fn forget(&self, _url: &str, name: &Name) {
        unreachable!("{} {name}", Need::Forget)
    }

    /// As [`Harness::counters`].
    async fn counters(&self, _url: &str) -> Counters {
        unreachable!("{}", Need::Counters)
    }

    /// As [`Harness::residue`].
    async fn residue(&self, _url: &str) -> u64 {
        unreachable!("{}", Need::Residue)
    }

    /// As [`Harness::kept`].
    async fn kept(&self, _url: &str) -> u64 {
        unreachable!("{}", Need::Age)
    }

    /// As [`Harness::age`].
    async fn age(&self, _url: &str, by: Duration) {
        unreachable!("{} {by:?}", Need::Age)
    }

    /// As [`Harness::interrupt`]. Only for a server that was started here.
    async fn interrupt(&self, _url: &str) {
        unreachable!("{}", Need::Interrupt)
    }
}

/// Runs the suite on the backend's server: the one that the environment names, or one that is started for it. *Not run*
/// if there is none, or failed if there had to be one.
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
        // It is never started again: what it writes would only cost time.
        self.own(&Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

const ASKED: &str = "whether a proxy can stand before it was asked first";

impl<B: Backend> OnServer<B> {
    fn own(&self, settings: &Settings) -> Box<dyn OwnServer> {
        let server = Owned::start(self.backend.product(), settings).expect("another was started before");
        Box::new(Own { backend: self.backend.clone(), server })
    }
}

/// A server of a case's own.
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
