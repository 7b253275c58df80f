//! Reentrancy, by an explicit owner: a matter of one process, which the server knows nothing of.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::claim::lost_because;
use crate::error::Result;
use crate::guard::Hold;
use crate::name::Name;

/// An owner that may enter again a lock which it holds: a job, a call tree, a request.
///
/// It is handed to those who belong together, and to [`LockBuilder::reentrant`](crate::LockBuilder::reentrant); whoever
/// has a clone of it is the same owner, on whichever thread or task, of this process. Of the locks of one client by one
/// name it enters the one that it holds: at once, without asking the server, with the same token, on the terms of the
/// first entry. Each entry has a guard of its own, and the last one to go releases the lock; each one before renews it,
/// unless its lease is fixed. A lock that was lost is not entered again while one of its guards lives: that is `Lost`.
///
/// ```
/// # async fn example(client: lock_core::Client) -> lock_core::Result<()> {
/// let job = lock_core::Reentrant::new();
/// let lock = client.lock("ledger").reentrant(&job).build()?;
/// let outer = lock.acquire().await?;
/// // Somewhere below, where nobody knows of `outer`:
/// let inner = lock.acquire().await?;
/// assert_eq!(inner.token(), outer.token());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Reentrant(Arc<Holds>);

#[derive(Default)]
struct Holds {
    held: Mutex<HashMap<Place, Weak<Hold>>>,
    /// Something was added.
    change: watch::Sender<()>,
}

/// The address of a client, and a name there. No other client has the address while a hold of this one lives.
pub(crate) type Place = (usize, Name);

impl Reentrant {
    /// Another owner than any before.
    pub fn new() -> Reentrant {
        Reentrant::default()
    }

    /// What is held here already, or else what is `granted`, or what another task of this owner is granted meanwhile.
    pub(crate) async fn enter(
        &self,
        place: Place,
        granted: impl Future<Output = Result<Option<Arc<Hold>>>>,
    ) -> Result<Option<Arc<Hold>>> {
        if let Some(hold) = self.again(&place)? {
            return Ok(Some(hold));
        }
        let hold = tokio::select! {
            biased;
            granted = granted => granted?,
            hold = self.entered(&place) => return hold.map(Some),
        };
        match hold {
            Some(hold) => Ok(Some(self.register(place, hold))),
            None => self.again(&place),
        }
    }

    /// What this owner holds here. `Lost` if it is not certain any more, but not given up either.
    fn again(&self, place: &Place) -> Result<Option<Arc<Hold>>> {
        let hold = self.0.held().get(place).and_then(Weak::upgrade);
        match hold.as_ref().and_then(|hold| hold.loss()) {
            None => Ok(hold),
            Some(cause) => Err(lost_because(cause)),
        }
    }

    /// What another task of this owner enters.
    async fn entered(&self, place: &Place) -> Result<Arc<Hold>> {
        let mut change = self.0.change.subscribe();
        loop {
            if let Some(hold) = self.again(place)? {
                return Ok(hold);
            }
            // The sender is ours.
            let _: Result<(), _> = change.changed().await;
        }
    }

    fn register(&self, place: Place, hold: Arc<Hold>) -> Arc<Hold> {
        let registration = Registration { holds: self.0.clone(), place: place.clone() };
        hold.register(registration);
        self.0.held().insert(place, Arc::downgrade(&hold));
        self.0.change.send_replace(());
        hold
    }
}

impl Holds {
    fn held(&self) -> MutexGuard<'_, HashMap<Place, Weak<Hold>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.0.held();
        f.debug_set().entries(held.keys().map(|(_, name)| name)).finish()
    }
}

/// Where an owner finds a hold again. Dropped with that hold, it takes the place away.
pub(crate) struct Registration {
    holds: Arc<Holds>,
    place: Place,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut held = self.holds.held();
        // Not one that has come since.
        if held.get(&self.place).is_some_and(|hold| hold.strong_count() == 0) {
            held.remove(&self.place);
        }
    }
}
