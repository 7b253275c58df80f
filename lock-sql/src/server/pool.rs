//! A few connections, opened when they are needed, and calls on them that end in time.
//!
//! The connections are the client's own and never the user's. User code that holds all connections of a shared pool
//! would stop renewals, and what it leaves on a connection (an open transaction, another isolation level) would affect
//! our statements.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::toolkit::{Call, Drift, HumanDuration, detached};
use lock_core::{Clock, Effect, Error, Instant, Result};
use tokio::sync::oneshot;

use super::dialect::{Answer, Dialect};
use super::link::{Link, Moment};
use super::request_queue::{Entry, LockWait, Purpose, RequestQueue, Turn};
use super::serving::{Job, Make, Request, Resting, StatementOutcome};

/// Connections to one server. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Pool<D: Dialect>(Arc<Shared<D>>);

#[derive(Debug)]
pub(super) struct Shared<D: Dialect> {
    dialect: D,
    /// The time that opening a connection may take.
    patience: Duration,
    state: Mutex<State<D>>,
}

pub(super) struct State<D: Dialect> {
    /// The connections that no request uses; the one used last is on top.
    pub(super) idle: Vec<Link<D>>,
    pub(super) queue: RequestQueue<Request<D>>,
    /// The tasks that have nothing to do; the one that was busy last is on top.
    pub(super) resting: Vec<Resting<D>>,
}

/// A connection on which the server has not answered for this long is replaced. Something between client and server may
/// have dropped it, and a call on it would then lose all of its patience.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// The time for which a statement that the server undid is not repeated: a fourth of the time since, within these
/// bounds. A row that was locked for a moment is asked for soon, and many that stay locked cost the server little.
const AGAIN: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(250);

impl<D: Dialect> Clone for Pool<D> {
    fn clone(&self) -> Pool<D> {
        Pool(self.0.clone())
    }
}

impl<D: Dialect> Pool<D> {
    /// Creates a pool of at most `connections` connections; fewer than two are taken for two.
    pub(crate) fn new(dialect: D, connections: usize, patience: Duration) -> Pool<D> {
        let state = State { idle: Vec::new(), queue: RequestQueue::new(connections), resting: Vec::new() };
        Pool(Arc::new(Shared { dialect, patience, state: Mutex::new(state) }))
    }

    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL's table calls it"))]
    pub(crate) fn dialect(&self) -> &D {
        &self.0.dialect
    }

    /// Returns the drift of the server clock since the oldest of the idle connections was opened.
    pub(crate) fn drift(&self) -> Option<Drift> {
        self.0.state().idle.iter().map(Link::drift).max_by_key(|drift| drift.over)
    }

    /// Runs the statement that `make` builds for the moment of sending. It runs to its end, even if the returned future
    /// is dropped or not polled. If the server undid it, it is repeated, until the call is over.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        purpose: Purpose,
        make: impl Fn(Moment) -> D::Statement + Send + Sync + 'static,
    ) -> Result<Answer<D::Row>> {
        let (make, clock): (Make<D>, _) = (Arc::new(make), call.clock());
        let mut undone: Option<(Instant, Error)> = None;
        loop {
            let turn = if undone.is_none() { Turn::First } else { Turn::Again };
            let (since, error) = match (self.ask_once(call, purpose, turn, make.clone()).await, undone) {
                (Ok(StatementOutcome::Answered(answer)), _) => return Ok(answer),
                (Ok(StatementOutcome::Undone(error)), None) => (clock.now(), error),
                (Ok(StatementOutcome::Undone(error)), Some((since, _))) => (since, error),
                // Nothing was sent once more: all connections are used for others that wait for rows.
                (Err(e), Some((_, error))) if call.is_over() && !e.may_have_taken_effect() => {
                    return Err(error);
                }
                (Err(e), _) => return Err(e),
            };
            // It uses no connection in the meantime.
            let pause = (clock.now().since(since) / 4).clamp(AGAIN.start, AGAIN.end);
            clock.sleep(pause.min(call.left())).await;
            if call.is_over() {
                return Err(error);
            }
            undone = Some((since, error));
        }
    }

    async fn ask_once(
        &self,
        call: &Call,
        purpose: Purpose,
        turn: Turn,
        make: Make<D>,
    ) -> Result<StatementOutcome<D::Row>> {
        let (reply, mut answer) = oneshot::channel();
        let request = Request { call: call.clone(), make, reply };
        let (entry, task) = self.0.state().enter(purpose, turn, request);
        let answer = match entry {
            Entry::Served(used, request) => {
                Job { shared: self.0.clone(), used, request }.start(task);
                answer.await
            }
            Entry::Waits(ticket) => match call.within(&mut answer).await {
                Some(answer) => answer,
                None if self.0.state().queue.leave(purpose, turn, ticket) => return Err(no_connection()),
                None => answer.await,
            },
        };
        answer.unwrap_or_else(|_| Err(Error::unavailable(Effect::Unknown, "the call's task ended early")))
    }

    /// Opens the first connection of a client that is being opened.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL's table calls it"))]
    pub(crate) async fn open_one(&self, call: &Call) -> Result<()> {
        self.0.open(call, LockWait::Bounded).await
    }
}

impl<D: Dialect> Shared<D> {
    /// Returns a connection of this kind, and opens one if none is idle. If this fails, nothing was asked of the server.
    pub(super) async fn link(self: &Arc<Self>, call: &Call, lock_wait: LockWait) -> Result<Link<D>> {
        loop {
            if let Some(link) = self.usable(call.clock(), lock_wait) {
                return Ok(link);
            }
            if call.is_over() {
                return Err(no_connection());
            }
            self.open(call, lock_wait).await?;
        }
    }

    /// Opens a connection. If that takes longer than the call may, later calls use the connection.
    async fn open(self: &Arc<Self>, call: &Call, lock_wait: LockWait) -> Result<()> {
        let (shared, clock) = (self.clone(), call.clock().clone());
        let opening = async move {
            let opened = clock.timeout(shared.patience, shared.dialect.connect(lock_wait)).await;
            let opened = opened.unwrap_or_else(|| Err(not_connected(shared.patience)))?;
            shared.state().idle.push(Link::new(opened, lock_wait, &clock));
            Ok(())
        };
        let outcome = detached(call.clock(), call.left(), opening).await;
        // Whatever the outcome, no lock was touched.
        outcome.map_err(|e| match e.may_have_taken_effect() {
            true => not_connected(call.left()).with_source(e),
            false => e,
        })
    }

    fn usable(&self, clock: &Clock, lock_wait: LockWait) -> Option<Link<D>> {
        let mut state = self.state();
        let now = clock.now();
        state.idle.retain(|link| now.since(link.answered) < MAX_IDLE);
        let place = state.idle.iter().rposition(|link| link.lock_wait == lock_wait)?;
        Some(state.idle.remove(place))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<D>> {
        // No code that can panic runs under this lock, so the state is still complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Dialect> State<D> {
    /// Lets a request enter the queue. If it has a connection to use, also returns a task that has nothing to do.
    fn enter(
        &mut self,
        purpose: Purpose,
        turn: Turn,
        request: Request<D>,
    ) -> (Entry<Request<D>>, Option<Resting<D>>) {
        let entry = self.queue.enter(purpose, turn, request);
        let task = match entry {
            Entry::Served(..) => self.resting.pop(),
            Entry::Waits(_) => None,
        };
        (entry, task)
    }
}

impl<D: Dialect> fmt::Debug for State<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("idle", &self.idle.len()).finish_non_exhaustive()
    }
}

fn no_connection() -> Error {
    Error::unavailable(Effect::NotApplied, "no connection was free in time")
}

fn not_connected(within: Duration) -> Error {
    // Servers of another kind may wait for the client to send something, while the client waits for the server's first
    // message.
    Error::unavailable(
        Effect::NotApplied,
        format!(
            "no connection could be opened within {}: no server of this kind has answered there",
            HumanDuration(within)
        ),
    )
}
