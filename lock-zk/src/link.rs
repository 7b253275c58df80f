//! A session's connection: one client of the protocol for each, which ends with it.
//!
//! The client that we use goes on by itself when a connection breaks: it makes another, sends what was waiting, whoever
//! waits for it, and gives the session up by its own clock. None of this suits a lock. So each of its connections is
//! ended when it breaks, or when an attempt has been on its way for too long, and the session goes on with the next one:
//! what was sent on the old one and has not been carried out by then never will be.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Clock, Instant, Random};
use spawns_core::{Spawn, Task};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use zookeeper_client::{Client, Error as ZkError, SessionInfo, SessionState};

use crate::errors;
use crate::settings::Reach;

/// Where connections are made, and where they live.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) reach: Arc<Reach>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// The client's own: a guard may be dropped anywhere.
    pub(crate) runtime: Handle,
    /// Which made it.
    pub(crate) process: Process,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }

    /// Whether this is a fork of it: what it made is a copy here, which owns nothing, and nothing is to be sent for it.
    pub(crate) fn is_parent(self) -> bool {
        self.0 != std::process::id()
    }
}

impl Site {
    /// Never resolves in a copy: the task rests with all that it has, whose end the server would hear of.
    pub(crate) async fn rests_if_copied(&self) {
        if self.process.is_parent() {
            std::future::pending::<()>().await;
        }
    }
}

/// One connection. When it is dropped without having been [ended](Self::end), its session is closed.
#[derive(Debug)]
pub(crate) struct Link {
    /// Rises from connection to connection of a session.
    pub(crate) number: u64,
    pub(crate) client: Client,
    /// When it was begun to be made.
    pub(crate) began: Instant,
    clock: Clock,
    serving: Mutex<Option<JoinHandle<()>>>,
    has_ended: AtomicBool,
    heard: Mutex<Instant>,
    process: Process,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The server says that the session is over.
    Expired,
    /// Nobody answered in time.
    Late,
    Failed(ZkError),
}

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server answered that it did not do it.
    Refused(ZkError),
    /// The connection broke: nobody knows.
    Broken,
    /// No answer came in time: nobody knows.
    Late,
    /// The node of this path stands in the way, and is no lock client's.
    Stray(String),
}

impl Link {
    /// Connects, to a new session or to the one that is named; again and again, until the call is over: a server that is
    /// busy may answer too late for a short session.
    pub(crate) async fn open(
        site: &Site,
        number: u64,
        timeout: Duration,
        session: Option<SessionInfo>,
        call: &Call,
    ) -> Result<Link, NotOpened> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            match Link::open_once(site, number, timeout, session.clone(), call).await {
                Err(NotOpened::Failed(ZkError::NoHosts | ZkError::Timeout)) if call.left() > pause => {}
                outcome => return outcome,
            }
            site.clock.sleep(pause / 2 + site.random.up_to(pause / 2)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open_once(
        site: &Site,
        number: u64,
        timeout: Duration,
        session: Option<SessionInfo>,
        call: &Call,
    ) -> Result<Link, NotOpened> {
        let began = site.clock.now();
        let mut connector = site.reach.connector(timeout);
        if let Some(session) = session {
            connector = connector.with_session(session);
        }
        let connecting = connector.connect(&site.reach.servers);
        let (outcome, serving) = caught(&site.runtime, call.within(connecting)).await;
        match outcome {
            Some(Ok(client)) => {
                let (serving, heard) = (Mutex::new(serving), Mutex::new(site.clock.now()));
                let (has_ended, clock) = (AtomicBool::new(false), site.clock.clone());
                Ok(Link { number, client, began, clock, serving, has_ended, heard, process: site.process })
            }
            Some(Err(ZkError::SessionExpired)) => Err(NotOpened::Expired),
            Some(Err(e)) => Err(NotOpened::Failed(e)),
            None => Err(NotOpened::Late),
        }
    }

    /// What the server granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Whether it is worth asking anything.
    pub(crate) fn is_alive(&self) -> bool {
        // One that was ended says for ever what it said last.
        !self.has_ended.load(Ordering::SeqCst) && self.client.state() == SessionState::SyncConnected
    }

    /// Resolves when it has broken. Cancel safe.
    pub(crate) async fn broken(&self) {
        let mut states = self.client.state_watcher();
        if self.is_alive() {
            // Whatever it is now: it was something else in between.
            states.changed().await;
        }
    }

    /// What the server answers to a request, which is on its way already.
    pub(crate) async fn ask<T>(
        &self,
        call: &Call,
        request: impl Future<Output = Result<T, ZkError>>,
    ) -> Result<T, Failure> {
        let answer = match call.within(request).await {
            None => return Err(Failure::Late),
            Some(Err(e)) if !errors::is_answer(&e) => return Err(Failure::Broken),
            Some(answer) => answer.map_err(Failure::Refused),
        };
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
        answer
    }

    /// Whether it has answered anybody since.
    pub(crate) fn was_heard_since(&self, since: Instant) -> bool {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) >= since
    }

    /// Closes the session with the connection, as soon as no call uses it any more. Waits for that, for so long at most.
    pub(crate) async fn close(self: Arc<Self>, limit: Duration) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        let clock = self.clock.clone();
        drop(self);
        if let Some(serving) = serving {
            tokio::select! {
                _ = serving => {}
                () = clock.sleep(limit) => {}
            }
        }
    }

    /// Ends the connection, whatever is still on its way. The session stays. Nobody may be polling a watch of it: the
    /// client's watchers panic then.
    pub(crate) async fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.abort();
            serving.await.ok();
        }
    }
}

impl Drop for Link {
    /// In a fork it is a copy, and the session its parent's, on the same socket: the client, never dropped, doesn't close it.
    fn drop(&mut self) {
        if self.process.is_parent() {
            std::mem::forget(self.client.clone());
        }
    }
}

/// Between two attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What `future` answers, with the task that it spawned meanwhile: the one in which the client serves its connection.
async fn caught<F: Future>(runtime: &Handle, future: F) -> (F::Output, Option<JoinHandle<()>>) {
    struct Catch<'a>(&'a Handle, Mutex<Option<JoinHandle<()>>>);
    impl Spawn for Catch<'_> {
        fn spawn(&self, task: Task) {
            let serving = self.0.spawn(Box::into_pin(task.future));
            *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        }
    }
    let catch = Catch(runtime, Mutex::default());
    let mut future = pin!(future);
    let output = std::future::poll_fn(|context| {
        let _inside = spawns_core::enter(&catch);
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    (output, catch.1.into_inner().unwrap_or_else(PoisonError::into_inner))
}
