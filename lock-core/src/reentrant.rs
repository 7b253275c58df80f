//! Reentrancy by an explicit owner. It exists within one process, and the server does not know of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::error::{Effect, Error, Result};
use crate::guard::Hold;
use crate::name::Name;
use crate::process::Shares;

/// An owner that may enter a lock again while it holds the lock: a job, a call tree, a request.
///
/// Give clones of it to the tasks and functions that belong together, and to
/// [`LockBuilder::reentrant`](crate::LockBuilder::reentrant). All clones are the same owner, on every thread and task
/// of this process. An owner that holds a lock enters it again through every lock of the same client and name: at once,
/// without a request to the server, with the same token, and on the terms of the first entry.
///
/// Each entry has its own guard. The last guard to go releases the lock; each earlier one renews it when it goes,
/// unless the lease is fixed. A lock that was lost is not entered again while one of its guards lives: the error is
/// then `Lost`.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: lock_core::Client) -> lock_core::Result<()> {
/// let job = onelock::Reentrant::new();
/// let lock = client.lock("ledger").reentrant(&job).build()?;
/// let outer = lock.acquire().await?;
/// // Further down, in code that does not know `outer`:
/// let inner = lock.acquire().await?;
/// assert_eq!(inner.token(), outer.token());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Reentrant(Shares<Holds>);

#[derive(Default)]
struct Holds {
    held: Mutex<HashMap<HoldKey, Weak<Hold>>>,
    /// Notified when a hold was added.
    change: watch::Sender<()>,
}

/// The address of a client, and a name there. No other client gets this address while a hold of this one lives.
pub(crate) type HoldKey = (usize, Name);

impl Reentrant {
    /// Makes a new owner, different from all others.
    pub fn new() -> Reentrant {
        Reentrant(Shares::new(Holds::default()))
    }

    /// Returns what this owner holds here already; otherwise what `granted` returns, or what another task of this owner
    /// is granted in the meantime.
    pub(crate) async fn enter(
        &self,
        key: HoldKey,
        granted: impl Future<Output = Result<Option<Arc<Hold>>>>,
    ) -> Result<Option<Arc<Hold>>> {
        if self.0.is_inherited() {
            return Err(Error::unavailable(
                Effect::NotApplied,
                "this process is a fork of the one that made this reentrant owner; make another one in this process",
            ));
        }
        if let Some(hold) = self.again(&key)? {
            return Ok(Some(hold));
        }
        let hold = tokio::select! {
            biased;
            granted = granted => granted?,
            hold = self.entered(&key) => return hold.map(Some),
        };
        match hold {
            Some(hold) => Ok(Some(self.register(key, hold))),
            None => self.again(&key),
        }
    }

    /// Returns what this owner holds here. `Lost` if it is not certain any more, but has not been given up either.
    fn again(&self, key: &HoldKey) -> Result<Option<Arc<Hold>>> {
        let hold = self.0.held().get(key).and_then(Weak::upgrade);
        match hold.as_ref().and_then(|hold| hold.loss()) {
            None => Ok(hold),
            Some(cause) => Err(cause.to_error()),
        }
    }

    /// Waits until another task of this owner has entered, and returns what it holds.
    async fn entered(&self, key: &HoldKey) -> Result<Arc<Hold>> {
        let mut change = self.0.change.subscribe();
        loop {
            if let Some(hold) = self.again(key)? {
                return Ok(hold);
            }
            // The sender lives as long as `self`.
            let _: Result<(), _> = change.changed().await;
        }
    }

    fn register(&self, key: HoldKey, hold: Arc<Hold>) -> Arc<Hold> {
        let registration = Registration { holds: Arc::clone(&self.0), key: key.clone() };
        hold.register(registration);
        self.0.held().insert(key, Arc::downgrade(&hold));
        self.0.change.send_replace(());
        hold
    }
}

impl Default for Reentrant {
    fn default() -> Reentrant {
        Reentrant::new()
    }
}

impl Holds {
    fn held(&self) -> MutexGuard<'_, HashMap<HoldKey, Weak<Hold>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_inherited() {
            return f.debug_set().finish_non_exhaustive();
        }
        let held = self.0.held();
        f.debug_set().entries(held.keys().map(|(_, name)| name)).finish()
    }
}

/// The entry by which an owner finds a hold again. It is dropped with that hold, and then removes itself.
pub(crate) struct Registration {
    holds: Arc<Holds>,
    key: HoldKey,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut held = self.holds.held();
        // A hold that came later keeps its entry.
        if held.get(&self.key).is_some_and(|hold| hold.strong_count() == 0) {
            held.remove(&self.key);
        }
    }
}
