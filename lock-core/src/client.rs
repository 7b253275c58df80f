//! A client: one driver with a clock, a source of randomness and a place where its claims live.

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
use crate::home::{Home, Process, TaskCount};
use crate::local_queue::LocalQueues;
use crate::lock::{DEFAULT_TTL, LockBuilder};
use crate::name::Name;
use crate::options::Options;
use crate::owner::Label;
use crate::random::Random;

/// A connection to a lock server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) home: Arc<Home>,
}

/// What claims need of their client. They don't hold the client's home, because that waits for them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) local_queues: Arc<LocalQueues>,
    pub(crate) events: Events,
    pub(crate) label: Label,
    pub(crate) process: Process,
    patience: Option<Duration>,
    closing: watch::Sender<bool>,
    /// The shortest ttl in use, in milliseconds. It decides how often the client checks for a suspend.
    shortest_ttl: AtomicU64,
    /// Stops the task that watches for a suspend, when it is dropped.
    _watch: Watch,
}

/// The task that watches for a suspend. It ends with its client.
#[derive(Debug)]
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Opens a client of `driver` on the current tokio runtime, with default options.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) outside of a tokio runtime.
    pub fn new(driver: impl Driver) -> Result<Client> {
        let options = Options::default();
        let home = Home::current()?;
        Ok(Client::start(Arc::new(driver), options, home))
    }

    /// Returns the default options, to set others and open a client with them.
    pub fn options() -> Options {
        Options::default()
    }

    /// Starts to build a lock with this name. The builder sets its terms.
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(self.clone(), name.into())
    }

    /// Returns what the backend guarantees and can do, as found on the connected server.
    pub fn info(&self) -> Arc<Info> {
        self.shared.driver.info()
    }

    /// Checks whether the server can be reached, has what locks need, and grants this client the necessary rights.
    /// Returns one finding per question.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered within the patience; any other
    /// error as the driver returns it.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let driver = self.shared.driver.clone();
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let outcome = self.home.run(async move { driver.check(patience).await }).await;
        outcome.map_err(|e| self.shared.at("check", None, e))
    }

    /// Creates what the server needs once before its first lock, if it is missing. `onelock::schema` shows what that
    /// is.
    ///
    /// Returns a description of what was done, which is empty if there was nothing to do.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered within the patience; any other
    /// error as the driver returns it.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the request goes on in the background and may still take effect.
    pub async fn init(&self) -> Result<String> {
        let driver = self.shared.driver.clone();
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let outcome = self.home.run(async move { driver.init(patience).await }).await;
        outcome.map_err(|e| self.shared.at("init", None, e))
    }

    /// Returns the driver, for code that makes the contract's calls itself, such as the conformance suite.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.shared.driver
    }

    /// Returns the client's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Shuts the client down: turns away new callers and waiting ones, and waits, at most for `limit`, until every lock
    /// of this client has been released.
    ///
    /// Returns how many claims were left then; 0 means that nothing is left on the server. A lock whose guard lives is
    /// not taken from it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: called again, it goes on waiting.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.shared.closing.send_replace(true);
        let task_count = self.home.task_count();
        if self.home.is_inherited() {
            return task_count.count(); // in a fork no task brings it down
        }
        let clock = &self.shared.clock;
        let empty = pin!(clock.until(clock.now() + limit, task_count.wait_until_empty()));
        self.home.within(empty).await;
        task_count.count()
    }

    pub(crate) fn start(driver: Arc<dyn Driver>, options: Options, home: Home) -> Client {
        let Options { clock, random, label, patience, observer, .. } = options;
        let events = Events::new(driver.info().backend, observer);
        let task_count = home.task_count().clone();
        let shared = Arc::new_cyclic(|shared| Shared {
            driver,
            local_queues: Arc::new(LocalQueues::new(clock.clone())),
            clock,
            random,
            events,
            label: label.unwrap_or_else(Label::of_this_process),
            process: home.process(),
            patience,
            closing: watch::Sender::new(false),
            shortest_ttl: AtomicU64::new(u64::MAX),
            _watch: Watch(home.handle().spawn(watch_for_suspend(shared.clone(), task_count)).abort_handle()),
        });
        Client { shared, home: Arc::new(home) }
    }
}

/// Notices within a second or a tenth of a ttl that time went on while this process did not run. Costs nothing while no
/// claim is alive.
async fn watch_for_suspend(shared: Weak<Shared>, task_count: Arc<TaskCount>) {
    loop {
        task_count.wait_until_not_empty().await;
        let Some(client) = shared.upgrade() else { return };
        let (clock, step) = (client.clock.clone(), client.watch_step());
        // Not kept while waiting, so that a client that its users drop can end.
        drop(client);
        if let Some(by) = clock.watch(step).await
            && let Some(client) = shared.upgrade()
        {
            client.events.tell(&Event::Jumped { by });
        }
    }
}

impl Shared {
    /// Returns how long one request may take: a third of the ttl, within 100 ms and 5 s, so that a renewal has several
    /// tries.
    pub(crate) fn patience_for(&self, ttl: Duration) -> Duration {
        self.patience.unwrap_or_else(|| (ttl / 3).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE))
    }

    /// Returns `ttl` if the backend allows it.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<Duration> {
        let info = self.driver.info();
        let (min, max) = (info.min_ttl, info.max_ttl);
        if ttl < min || ttl > max {
            return Err(Error::invalid(format!(
                "the ttl {ttl:?} is outside of this backend's bounds: {min:?} to {max:?}"
            )));
        }
        self.uses_ttl(ttl);
        Ok(ttl)
    }

    /// Returns the ttl nearest to `ttl` that the backend allows.
    pub(crate) fn nearest_ttl(&self, ttl: Duration) -> Duration {
        let info = self.driver.info();
        let ttl = ttl.clamp(info.min_ttl, info.max_ttl);
        self.uses_ttl(ttl);
        ttl
    }

    /// Resolves when the client shuts down. Cancel safe.
    pub(crate) async fn closing(&self) {
        // The sender is in this struct: it is not dropped before.
        let _: Result<_, _> = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Adds to an error where it happened.
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
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(5);
const SHORTEST_STEP: Duration = Duration::from_millis(20);
const LONGEST_STEP: Duration = Duration::from_secs(1);
