//! The guard of work that is done once per period.

use std::fmt;
use std::ops::Deref;

use crate::ending::{Completion, Ending};
use crate::error::{Error, Result};
use crate::guard::Guard;

/// A held lock whose slot is this run's. It is a [`Guard`] that can also keep its slot.
///
/// Dropping the guard, or [`release`](Self::release), gives the slot back: another client can do the work in it. Call
/// [`complete`](Self::complete) when the work is done.
#[must_use = "a lock is released when its guard is dropped, here at once: keep it in a variable (`let _guard = …`; `_` \
              alone keeps nothing)"]
pub struct PeriodicGuard {
    pub(super) guard: Guard,
}

impl PeriodicGuard {
    pub(crate) fn new(guard: Guard) -> PeriodicGuard {
        PeriodicGuard { guard }
    }

    /// Says that the work is done: keeps the lock to the end of its slot, by the server's clock, with no process alive.
    /// Returns what became of it.
    ///
    /// While the server does not answer, it is asked again until the lease ends. If the lease that was granted before
    /// lasts longer than the slot, as it does when less than one ttl is left of the slot, this call waits for the slot's
    /// end and then releases the lock: otherwise the next run would find it held. If the program ends during that wait,
    /// the next slot can be taken when the lease has ended.
    ///
    /// Afterwards [`inspect`](crate::Lock::inspect) shows the lock as [done](crate::Entry::is_done), with `done:` before
    /// the run's label. To let the work be done again in the same slot, [revoke](crate::Lock::revoke) it.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the completion goes on in the background. If the runtime ends in
    /// between, the lock ends with its slot, or with its lease like that of a run that died; it is not released. A
    /// future that was never polled has done nothing, and dropping it releases the lock.
    pub async fn complete(self) -> Completion {
        self.guard.complete().await
    }

    /// Gives the slot back: releases the lock, and returns whether it was held until then. As [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the release goes on in the background.
    pub async fn release(self) -> Ending {
        self.guard.release().await
    }

    /// Runs `work`, and keeps the slot if it returns `Ok`.
    pub(super) async fn run<T, E>(
        self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        match self.protect(work(&self.guard)).await {
            Ok(Ok(done)) => {
                // Made while there is a guard to say where.
                let lost = self.guard.at(Error::lost(NOT_KEPT));
                match self.complete().await {
                    Completion::Lost => Err(lost),
                    Completion::Kept | Completion::SlotOver => Ok(Ok(done)),
                }
            }
            failed => {
                self.release().await;
                failed
            }
        }
    }
}

impl Deref for PeriodicGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for PeriodicGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicGuard").field("guard", &self.guard).finish()
    }
}

/// Why work counts as lost that was done.
pub(super) const NOT_KEPT: &str = "the work is done, but the lock was lost before its slot was kept";
