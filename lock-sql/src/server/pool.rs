//! A few connections, opened when they are needed, and calls on them that end in time.
//!
//! They are our own and never the user's: a user's code that keeps all of a pool's connections would stop renewals, and
//! what it leaves behind on a connection (an open transaction, another isolation level) would become part of our
//! statements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::{Call, Drift};
use lock_core::{Clock, Done, Error, Result, detached};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dialect::{Answer, Dialect};
use super::link::{Link, Moment, Ran};

/// Connections to one server. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Pool<D: Dialect>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Dialect> {
    dialect: D,
    /// How long opening a connection may take.
    patience: Duration,
    /// Those that nobody uses, the one used last on top.
    idle: Mutex<Vec<Link<D>>>,
    /// One permit for each connection there may be.
    all: Arc<Semaphore>,
    /// One fewer: who comes in can't keep out those who renew and release.
    entering: Arc<Semaphore>,
}

/// What a statement is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see who holds a lock, or to take it.
    Enter,
    /// To keep a lock, or to give it up. Always finds a connection that those who enter leave alone.
    Keep,
}

/// The right to use a connection.
type Permit = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// A connection that has been silent for so long may have been forgotten by something between us and the server, which
/// would cost a call all of its patience: another is opened instead.
const SILENCE: Duration = Duration::from_secs(30);

impl<D: Dialect> Clone for Pool<D> {
    fn clone(&self) -> Pool<D> {
        Pool(self.0.clone())
    }
}

impl<D: Dialect> Pool<D> {
    /// At most so many `connections`, of which there are two at least.
    pub(crate) fn new(dialect: D, connections: usize, patience: Duration) -> Pool<D> {
        let most = connections.max(2);
        Pool(Arc::new(Shared {
            dialect,
            patience,
            idle: Mutex::default(),
            all: Arc::new(Semaphore::new(most)),
            entering: Arc::new(Semaphore::new(most - 1)),
        }))
    }

    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "MySQL's dialect asks for it"))]
    pub(crate) fn dialect(&self) -> &D {
        &self.0.dialect
    }

    /// How the server's clock has gone since the oldest of the idle connections was opened.
    pub(crate) fn drift(&self) -> Option<Drift> {
        self.0.idle().iter().map(Link::drift).max_by_key(|drift| drift.over)
    }

    /// Runs the statement that `make` makes of the moment in which it is sent.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        purpose: Purpose,
        make: impl Fn(Moment) -> D::Statement + Send + Sync + 'static,
    ) -> Result<Answer<D::Row>> {
        let (permit, mut link) = self.link(call, purpose).await?;
        let (shared, own) = (self.0.clone(), call.clone());
        detached(call.clock(), call.left(), async move {
            let ran = link.run(&own, &make).await;
            let outcome = match ran {
                Ran::Answered(answer) => {
                    shared.idle().push(link);
                    Ok(answer)
                }
                Ran::Failed(error) => {
                    shared.idle().push(link);
                    Err(error)
                }
                Ran::Broken(error) => {
                    // What broke one has broken the others as a rule: each would cost a call of its own to find out.
                    shared.idle().clear();
                    Err(error)
                }
            };
            drop(permit);
            outcome
        })
        .await
    }

    /// Opens the first connection, as a client does that is just being opened.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "PostgreSQL's feed asks for it"))]
    pub(crate) async fn open_one(&self, call: &Call) -> Result<()> {
        self.open(call).await
    }

    /// A connection, opened if none is idle. Nothing has been asked if this fails.
    async fn link(&self, call: &Call, purpose: Purpose) -> Result<(Permit, Link<D>)> {
        let out_of_time = || Error::unavailable(Done::No, "no connection was free in time");
        let permit = match self.free_permit(purpose) {
            Some(permit) => permit,
            None => call.clock().timeout(call.left(), self.permit(purpose)).await.ok_or_else(out_of_time)?,
        };
        loop {
            if let Some(link) = self.usable(call.clock()) {
                return Ok((permit, link));
            }
            if call.left().is_zero() {
                return Err(out_of_time());
            }
            self.open(call).await?;
        }
    }

    /// One that nobody has to be waited for.
    fn free_permit(&self, purpose: Purpose) -> Option<Permit> {
        let of = |semaphore: &Arc<Semaphore>| semaphore.clone().try_acquire_owned().ok();
        let entering = match purpose {
            Purpose::Enter => Some(of(&self.0.entering)?),
            Purpose::Keep => None,
        };
        Some((of(&self.0.all)?, entering))
    }

    async fn permit(&self, purpose: Purpose) -> Permit {
        let of = async |semaphore: &Arc<Semaphore>| {
            semaphore.clone().acquire_owned().await.expect("the semaphores are never closed")
        };
        let entering = match purpose {
            Purpose::Enter => Some(of(&self.0.entering).await),
            Purpose::Keep => None,
        };
        (of(&self.0.all).await, entering)
    }

    /// Opens a connection. Where that takes longer than a call may, it is there for the calls after it.
    async fn open(&self, call: &Call) -> Result<()> {
        let (shared, clock) = (self.0.clone(), call.clock().clone());
        let opening = async move {
            let opened = clock.timeout(shared.patience, shared.dialect.connect()).await;
            let opened = opened.unwrap_or_else(|| Err(not_connected(shared.patience)))?;
            shared.idle().push(Link::new(opened, &clock));
            Ok(())
        };
        let outcome = detached(call.clock(), call.left(), opening).await;
        // Whatever became of it, no lock was touched.
        outcome.map_err(|e| match e.may_have_been_done() {
            true => not_connected(call.left()).with_source(e),
            false => e,
        })
    }

    fn usable(&self, clock: &Clock) -> Option<Link<D>> {
        let mut idle = self.0.idle();
        let now = clock.now();
        idle.retain(|link| now.since(link.answered) < SILENCE);
        idle.pop()
    }
}

impl<D: Dialect> Shared<D> {
    fn idle(&self) -> MutexGuard<'_, Vec<Link<D>>> {
        // Nothing that can panic runs under this lock: a poisoned list is whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_connected(within: Duration) -> Error {
    // Other kinds of servers wait for the client's next word, and their clients' for the server's first.
    Error::unavailable(
        Done::No,
        format!(
            "no connection could be opened within {within:?}: nothing there has answered as such a server does"
        ),
    )
}
