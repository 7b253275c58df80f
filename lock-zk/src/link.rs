//! A session's connection. Each connection has a client of the `zookeeper-client` crate for itself, which ends with it.
//!
//! When a connection breaks, the crate's client goes on by itself: it opens another connection, sends the requests that
//! were waiting, even if their callers have gone, and gives the session up by its own clock. Locks can't rely on that.
//! So a client is ended when its connection breaks, or when an attempt is on its way for too long, and the session goes
//! on with the next connection. A request on the old one that has not been carried out by then never will be.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lock_core::toolkit::{Call, Process};
use lock_core::{Clock, Effect, Error, Instant, Random};
use spawns_core::{Spawn, Task};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use zookeeper_client::{Client, Error as ZkError, SessionInfo, SessionState as ClientState};

use crate::errors;
use crate::settings::Reach;

/// State that all connections of a client share.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) reach: Arc<Reach>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// The runtime of the client: a guard may be dropped on a thread without one.
    pub(crate) runtime: Handle,
    /// The process that opened the client.
    pub(crate) process: Process,
}

impl Site {
    /// Never resolves in a forked process. The task stops there and drops nothing: the server would be notified of the
    /// drop.
    pub(crate) async fn pends_if_forked(&self) {
        self.process.only().await;
    }
}

/// One connection. When it is dropped without having been [ended](Self::end), its session is closed.
#[derive(Debug)]
pub(crate) struct Link {
    /// Rises with each connection of a session.
    pub(crate) number: u64,
    pub(crate) client: Client,
    /// When connecting began.
    pub(crate) began: Instant,
    clock: Clock,
    serving: Mutex<Option<JoinHandle<()>>>,
    has_ended: AtomicBool,
    answered_at: Mutex<Instant>,
    process: Process,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The server says that the session is over.
    Expired,
    /// No server answered in time.
    Late,
    Failed(ZkError),
}

impl NotOpened {
    /// Returns the error of a call that needed a new session: nothing was sent in it.
    pub(crate) fn into_error(self, call: &Call) -> Error {
        match self {
            NotOpened::Failed(e) => errors::connecting(e, call.ends().since(call.began())),
            NotOpened::Expired | NotOpened::Late => call.out_of_time(Effect::NotApplied),
        }
    }
}

/// Why a request has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server answered that it did not do it.
    Refused(ZkError),
    /// The connection broke: the outcome is unknown.
    Broken,
    /// No answer came in time: the outcome is unknown.
    Late,
    /// The persistent node of this path blocks the queue, and no lock client has created it.
    Persistent(String),
}

impl Link {
    /// Connects to a new session, or to the given one. Tries again until the call is over: a busy server may answer too
    /// late for a short session.
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
                let (serving, answered_at) = (Mutex::new(serving), Mutex::new(site.clock.now()));
                let (has_ended, clock) = (AtomicBool::new(false), site.clock.clone());
                Ok(Link {
                    number,
                    client,
                    began,
                    clock,
                    serving,
                    has_ended,
                    answered_at,
                    process: site.process,
                })
            }
            Some(Err(ZkError::SessionExpired)) => Err(NotOpened::Expired),
            Some(Err(e)) => Err(NotOpened::Failed(e)),
            None => Err(NotOpened::Late),
        }
    }

    /// Returns the timeout that the server granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Returns whether the connection works, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        // After `end`, the client stays in its last state for ever.
        !self.has_ended.load(Ordering::SeqCst) && self.client.state() == ClientState::SyncConnected
    }

    /// Resolves when the connection has broken. Cancel safe.
    pub(crate) async fn broken(&self) {
        let mut states = self.client.state_watcher();
        if self.is_alive() {
            // Any change means that the connection broke, even if the client has connected again.
            states.changed().await;
        }
    }

    /// Waits for the server's answer to a request, which is on its way already.
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
        *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
        answer
    }

    /// Returns whether the server has answered a request on it since then.
    pub(crate) fn has_answered_since(&self, since: Instant) -> bool {
        *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner) >= since
    }

    /// Closes the session with the connection, as soon as no call uses it any more. Waits for that, for `limit` at
    /// most.
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

    /// Ends the connection, even if requests are on their way. The session stays. No task may poll a watch of the
    /// connection at that time: the crate's watchers would panic.
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
    /// In a forked process the link is a copy, and the session belongs to the parent, on the same socket. So the client
    /// is never dropped there, and does not close the session.
    fn drop(&mut self) {
        if self.process.is_another() {
            std::mem::forget(self.client.clone());
        }
    }
}

/// The pauses between two attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Returns the output of `future`, and the task that it spawned: the one in which the crate's client serves its
/// connection.
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
