//! A client: one driver with a clock, a source of randomness and a place where its claims live.

mod options;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::driver::{Driver, Finding, Info};
use crate::error::{Error, Result};
use crate::events::{Event, Events};
use crate::gate::Gates;
use crate::keeper::{Census, Keeper};
use crate::lock::{DEFAULT_TTL, LockBuilder};
use crate::name::Name;
use crate::owner::Label;
use crate::process::Process;
use crate::random::Random;

pub use options::{Context, Options};

/// A connection to a lock server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) keeper: Arc<Keeper>,
}

/// What claims need of their client. They don't hold the keeper: it waits for them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) gates: Arc<Gates>,
    pub(crate) events: Events,
    pub(crate) label: Label,
    pub(crate) process: Process,
    patience: Option<Duration>,
    closing: watch::Sender<bool>,
    /// The shortest ttl in use, in milliseconds: how finely a suspend has to be noticed.
    shortest_ttl: AtomicU64,
    /// Ends the watch when it is dropped.
    _watch: Watch,
}

/// The task that watches for a suspend; it ends with its client.
#[derive(Debug)]
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// A client of `driver` on the current tokio runtime, with everything by default.
    ///
    /// `Invalid` outside a runtime.
    pub fn new(driver: impl Driver) -> Result<Client> {
        let options = Options::default();
        let keeper = Keeper::current()?;
        Ok(Client::start(Arc::new(driver), options, keeper))
    }

    /// The options to open a client with.
    pub fn options() -> Options {
        Options::default()
    }

    /// A lock by this name, with the terms that follow.
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(self.clone(), name.into())
    }

    /// What the backend guarantees and can do, as found on its server.
    pub fn info(&self) -> Arc<Info> {
        self.shared.driver.info()
    }

    /// Is the server reachable, are we allowed, is it prepared?
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let driver = self.shared.driver.clone();
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let outcome = self.keeper.run(async move { driver.check(patience).await }).await;
        outcome.map_err(|e| self.shared.at("check", None, e))
    }

    /// Makes what the server needs once, before its first lock, where it is missing: `onelock::schema` says what that is.
    /// What was done, in words; empty if there was nothing to do.
    pub async fn init(&self) -> Result<String> {
        let driver = self.shared.driver.clone();
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let outcome = self.keeper.run(async move { driver.init(patience).await }).await;
        outcome.map_err(|e| self.shared.at("init", None, e))
    }

    /// The driver, for those who speak the contract themselves: the conformance suite does.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.shared.driver
    }

    /// The client's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Takes no more callers, turns away those who wait, and waits, at most for `limit`, until every lock of this
    /// client has been released; answers how many claims were left then (0: nothing is left on the server).
    ///
    /// A lock whose guard lives is not taken from it. Cancel safe: called again, it goes on waiting.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.shared.closing.send_replace(true);
        let census = self.keeper.census();
        if self.keeper.is_inherited() {
            return census.count(); // nobody here brings it down
        }
        let clock = &self.shared.clock;
        let empty = pin!(clock.until(clock.now() + limit, census.empty()));
        self.keeper.within(empty).await;
        census.count()
    }

    fn start(driver: Arc<dyn Driver>, options: Options, keeper: Keeper) -> Client {
        let Options { clock, random, label, patience, observer, .. } = options;
        let events = Events::new(driver.info().backend, observer);
        let census = keeper.census().clone();
        let shared = Arc::new_cyclic(|shared| Shared {
            driver,
            gates: Arc::new(Gates::new(clock.clone())),
            clock,
            random,
            events,
            label: label.unwrap_or_else(Label::of_this_process),
            process: keeper.process(),
            patience,
            closing: watch::Sender::new(false),
            shortest_ttl: AtomicU64::new(u64::MAX),
            _watch: Watch(keeper.handle().spawn(watch_for_suspend(shared.clone(), census)).abort_handle()),
        });
        Client { shared, keeper: Arc::new(keeper) }
    }
}

/// Notices within a second or a tenth of a ttl that time went on without us. Costs nothing while nothing is held.
async fn watch_for_suspend(shared: Weak<Shared>, census: Arc<Census>) {
    loop {
        census.inhabited().await;
        let Some(client) = shared.upgrade() else { return };
        let (clock, step) = (client.clock.clone(), client.watch_step());
        // Not kept while waiting: a client that is dropped must go.
        drop(client);
        if let Some(by) = clock.watch(step).await
            && let Some(client) = shared.upgrade()
        {
            client.events.tell(&Event::Jumped { by });
        }
    }
}

impl Shared {
    /// How long one request may take: a third of the ttl, so that a renewal has several tries; 100 ms to 5 s.
    pub(crate) fn patience_for(&self, ttl: Duration) -> Duration {
        self.patience.unwrap_or_else(|| (ttl / 3).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE))
    }

    /// `ttl`, if the backend can take it.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<Duration> {
        let info = self.driver.info();
        let (min, max) = (info.min_ttl, info.max_ttl);
        if ttl < min || ttl > max {
            return Err(Error::invalid(format!(
                "the ttl {ttl:?} is outside of what this backend takes: {min:?} to {max:?}"
            )));
        }
        self.uses_ttl(ttl);
        Ok(ttl)
    }

    /// The nearest to `ttl` that the backend can take.
    pub(crate) fn nearest_ttl(&self, ttl: Duration) -> Duration {
        let info = self.driver.info();
        let ttl = ttl.clamp(info.min_ttl, info.max_ttl);
        self.uses_ttl(ttl);
        ttl
    }

    /// Resolves when the client shuts down. Cancel safe.
    pub(crate) async fn closing(&self) {
        // The sender is ours.
        let _: Result<_, _> = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Adds where an error happened.
    pub(crate) fn at(&self, operation: &'static str, name: Option<&Name>, error: Error) -> Error {
        let info = self.driver.info();
        error.at(info.backend, &info.server, operation, name)
    }

    fn uses_ttl(&self, ttl: Duration) {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.shortest_ttl.fetch_min(millis, Ordering::Relaxed);
    }

    fn watch_step(&self) -> Duration {
        Duration::from_millis(self.shortest_ttl.load(Ordering::Relaxed) / 10)
            .clamp(SHORTEST_STEP, LONGEST_STEP)
    }
}

const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);
const LONGEST_PATIENCE: Duration = Duration::from_secs(5);
const SHORTEST_STEP: Duration = Duration::from_millis(20);
const LONGEST_STEP: Duration = Duration::from_secs(1);
