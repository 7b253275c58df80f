//! A client: one driver with a clock, a source of randomness and a place where its claims live.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::acquisition::Shared;
use crate::clock::Clock;
use crate::driver::{Driver, Finding, Info, Inspection};
use crate::error::{ErrorKind, Result};
use crate::events::Events;
use crate::local_queue::LocalQueues;
use crate::lock::DEFAULT_TTL;
use crate::lock::builder::LockBuilder;
use crate::name::Name;
use crate::options::Options;
use crate::owner::Label;
use crate::process::Shares;
use crate::runtime::{RuntimeHandle, SuspendWatch};

/// A connection to a lock server. Cheap to clone.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use std::time::Duration;
///
/// let report = client.lock("nightly-report").wait(Duration::from_secs(60)).build()?;
/// report.run(async |guard| println!("with token {}", guard.token())).await?;
///
/// // At the end of the program: waits until every lock has been given back.
/// assert_eq!(client.shutdown(Duration::from_secs(5)).await, 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Shares<Shared>,
    pub(crate) runtime: Shares<RuntimeHandle>,
}

impl Client {
    /// Starts to build a lock with this name. The builder sets its terms.
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(self.shared.clone(), self.runtime.clone(), name.into())
    }

    /// Returns what the backend guarantees and can do, as found on the connected server.
    pub fn info(&self) -> Arc<Info> {
        self.shared.info()
    }

    /// Checks whether the server can be reached, has what locks need, and grants this client the necessary rights.
    /// Returns one finding per question.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered within the patience; any other
    /// error as the driver returns it.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the check goes on in the background.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let driver = self.shared.driver.clone();
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let check = async move { driver.check(patience).await };
        let outcome = self.runtime.run(&self.shared.clock, patience, check).await;
        outcome.map_err(|e| self.shared.at("check", None, e))
    }

    /// Returns the locks that are held or waited for and whose names begin with `beginning`, in the order of their
    /// names, each with its holder and, where the server knows them, its waiters.
    ///
    /// It asks the server for the names and then for each lock, so what it shows is of several moments. What is no lock
    /// of this library is left out. Each request has the whole patience, however many there are.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the server can't list its locks ([`Info::lists`]);
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered a request within the patience; any
    /// other error as the driver returns it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing on the server.
    pub async fn list(&self, beginning: &str) -> Result<Vec<(Name, Inspection)>> {
        let (driver, beginning) = (self.shared.driver.clone(), beginning.to_owned());
        let patience = self.shared.patience_for(DEFAULT_TTL);
        let list = async move { driver.names(&beginning, patience).await };
        let names = self.runtime.run(&self.shared.clock, patience, list).await;
        let names: BTreeSet<Name> = names.map_err(|e| self.shared.at("list", None, e))?.into_iter().collect();
        let (found, mut locks) = (names.len(), Vec::new());
        for (read, name) in names.into_iter().enumerate() {
            let inspection = match self.lock(name.as_str()).build()?.inspect().await {
                // It is no lock.
                Err(e) if e.kind() == ErrorKind::Rejected => continue,
                Err(e) => return Err(e.and_says(&format!("; {read} of {found} names were looked at before"))),
                Ok(inspection) => inspection,
            };
            let is_waited_for = inspection.waiters.as_ref().is_some_and(|waiters| !waiters.is_empty());
            if inspection.holder.is_some() || is_waited_for {
                locks.push((name, inspection));
            }
        }
        Ok(locks)
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
        let init = async move { driver.init(patience).await };
        let outcome = self.runtime.run(&self.shared.clock, patience, init).await;
        outcome.map_err(|e| self.shared.at("init", None, e))
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
        let task_count = self.runtime.task_count();
        if self.runtime.is_inherited() {
            // In a fork no task brings it down, and waking the parent's claims could wait for a thread of the parent.
            return task_count.count();
        }
        self.shared.close();
        let clock = &self.shared.clock;
        let empty = clock.until(clock.now() + limit, task_count.wait_until_empty());
        let _: std::result::Result<_, _> = self.runtime.here(empty).await;
        task_count.count()
    }

    /// Returns the client's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns the driver, for code that makes the contract's calls itself, such as the conformance suite.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.shared.driver
    }

    /// Opens a client of `driver` on the current tokio runtime, with default options.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) outside of a tokio runtime, and in one without timers.
    pub fn new(driver: impl Driver) -> Result<Client> {
        let options = Options::default();
        let clock = options.the_clock();
        let runtime = RuntimeHandle::current(&clock)?;
        let clock = clock.with_queue(runtime.handle());
        Ok(Client::start(Arc::new(driver), options, runtime, clock))
    }

    /// Returns the default options, to set others and open a client with them.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn start(
        driver: Arc<dyn Driver>,
        options: Options,
        runtime: RuntimeHandle,
        clock: Clock,
    ) -> Client {
        let Options { random, label, patience, observer, .. } = options;
        let info_when_opened = driver.info();
        let events = Arc::new(Events::new(info_when_opened.backend, observer, &clock));
        let task_count = runtime.task_count().clone();
        let shared = Shared {
            driver,
            info_when_opened,
            local_queues: Arc::new(LocalQueues::new(clock.clone())),
            suspend_watch: SuspendWatch::start(runtime.handle(), task_count, clock.clone(), events.clone()),
            clock,
            random,
            events,
            label: label.unwrap_or_else(Label::of_this_process),
            process: runtime.process(),
            patience,
            closing: watch::Sender::new(false),
        };
        Client { shared: Shares::new(shared), runtime: Shares::new(runtime) }
    }
}

impl fmt::Debug for Client {
    /// One line: which server it is, how many claims the client has there, and of how many names it has a queue.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info();
        let mut shown = f.debug_struct("Client");
        shown.field("backend", &info.backend).field("server", &info.server).field("identity", &info.identity);
        if !self.runtime.is_inherited() {
            shown.field("claims", &self.runtime.task_count().count());
            shown.field("queues", &self.shared.local_queues.count());
        }
        shown.finish_non_exhaustive()
    }
}
