//! A few connections, opened when they are needed, and calls on them that end in time.
//!
//! The connections are the client's own and never the user's. User code that holds all connections of a shared pool
//! would stop renewals, and what it leaves on a connection (an open transaction, another isolation level) would affect
//! our statements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::{Call, Drift, HumanDuration, detached};
use lock_core::{Clock, Effect, Error, Result};
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
    /// The connections that no call uses; the one used last is on top.
    idle: Mutex<Vec<Link<D>>>,
    /// One permit for each connection that may exist.
    all: Arc<Semaphore>,
    /// One permit fewer, so that calls that inspect or take locks can't keep out calls that renew and release.
    acquiring: Arc<Semaphore>,
}

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see the holder of a lock, or to take the lock.
    Acquire,
    /// To renew or release a lock. Calls for [`Purpose::Acquire`] always leave one connection for it.
    Maintain,
}

/// The right to use a connection.
type Permit = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// A connection on which the server has not answered for this long is replaced. Something between client and server may
/// have dropped it, and a call on it would then lose all of its patience.
const MAX_IDLE: Duration = Duration::from_secs(30);

impl<D: Dialect> Clone for Pool<D> {
    fn clone(&self) -> Pool<D> {
        Pool(self.0.clone())
    }
}

impl<D: Dialect> Pool<D> {
    /// Creates a pool of at most `connections` connections; fewer than two are taken for two.
    pub(crate) fn new(dialect: D, connections: usize, patience: Duration) -> Pool<D> {
        let most = connections.max(2);
        Pool(Arc::new(Shared {
            dialect,
            patience,
            idle: Mutex::default(),
            all: Arc::new(Semaphore::new(most)),
            acquiring: Arc::new(Semaphore::new(most - 1)),
        }))
    }

    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL's table calls it"))]
    pub(crate) fn dialect(&self) -> &D {
        &self.0.dialect
    }

    /// How the server clock has drifted since the oldest of the idle connections was opened.
    pub(crate) fn drift(&self) -> Option<Drift> {
        self.0.idle().iter().map(Link::drift).max_by_key(|drift| drift.over)
    }

    /// Runs the statement that `make` builds for the moment of sending.
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
                    // What broke this connection has usually broken the others too. Otherwise each would cost another
                    // call.
                    shared.idle().clear();
                    Err(error)
                }
            };
            drop(permit);
            outcome
        })
        .await
    }

    /// Opens the first connection of a client that is being opened.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL's table calls it"))]
    pub(crate) async fn open_one(&self, call: &Call) -> Result<()> {
        self.open(call).await
    }

    /// Returns a connection, and opens one if none is idle. If this fails, nothing was asked of the server.
    async fn link(&self, call: &Call, purpose: Purpose) -> Result<(Permit, Link<D>)> {
        let out_of_time = || Error::unavailable(Effect::NotApplied, "no connection was free in time");
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

    /// Takes a permit if one is free, without waiting.
    fn free_permit(&self, purpose: Purpose) -> Option<Permit> {
        let of = |semaphore: &Arc<Semaphore>| semaphore.clone().try_acquire_owned().ok();
        let acquiring = match purpose {
            Purpose::Acquire => Some(of(&self.0.acquiring)?),
            Purpose::Maintain => None,
        };
        Some((of(&self.0.all)?, acquiring))
    }

    async fn permit(&self, purpose: Purpose) -> Permit {
        let of = async |semaphore: &Arc<Semaphore>| {
            semaphore.clone().acquire_owned().await.expect("the semaphores are never closed")
        };
        let acquiring = match purpose {
            Purpose::Acquire => Some(of(&self.0.acquiring).await),
            Purpose::Maintain => None,
        };
        (of(&self.0.all).await, acquiring)
    }

    /// Opens a connection. If that takes longer than the call may, later calls use the connection.
    async fn open(&self, call: &Call) -> Result<()> {
        let (shared, clock) = (self.0.clone(), call.clock().clone());
        let opening = async move {
            let opened = clock.timeout(shared.patience, shared.dialect.connect()).await;
            let opened = opened.unwrap_or_else(|| Err(not_connected(shared.patience)))?;
            shared.idle().push(Link::new(opened, &clock));
            Ok(())
        };
        let outcome = detached(call.clock(), call.left(), opening).await;
        // Whatever the outcome, no lock was touched.
        outcome.map_err(|e| match e.may_have_taken_effect() {
            true => not_connected(call.left()).with_source(e),
            false => e,
        })
    }

    fn usable(&self, clock: &Clock) -> Option<Link<D>> {
        let mut idle = self.0.idle();
        let now = clock.now();
        idle.retain(|link| now.since(link.answered) < MAX_IDLE);
        idle.pop()
    }
}

impl<D: Dialect> Shared<D> {
    fn idle(&self) -> MutexGuard<'_, Vec<Link<D>>> {
        // No code that can panic runs under this lock, so a poisoned list is still complete.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
