//! The same calls for threads without async.

use super::guard::NOT_KEPT;
use super::{PeriodicGuard, PeriodicLock};
use crate::ending::{Completion, Ending};
use crate::error::{Error, Result};
use crate::guard::Guard;

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the client
/// lives on, they end with an error that says so.
impl PeriodicLock {
    /// Blocking form of [`PeriodicLock::acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<PeriodicGuard> {
        self.lock.runtime().wait_for(self.acquire())
    }

    /// Blocking form of [`PeriodicLock::try_acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_try_acquire(&self) -> Result<Option<PeriodicGuard>> {
        self.lock.runtime().wait_for(self.try_acquire())
    }

    /// Takes the lock if it is free, runs `work` on this thread, and keeps the slot if it returns `Ok`. If it returns
    /// `Err`, the lock is released. Returns `None`, and does not run `work`, if another client does the work, or if it
    /// is done in this slot.
    ///
    /// Nothing can stop `work` if the lock is lost: call [`Guard::check`] between its steps.
    ///
    /// # Errors
    ///
    /// As [`try_run`](Self::try_run).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_try_run<T, E>(
        &self,
        work: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>> {
        let Some(guard) = self.blocking_try_acquire()? else { return Ok(None) };
        let out = work(&guard);
        if let Err(lost) = guard.check() {
            guard.blocking_release();
            return Err(lost);
        }
        // Made while there is a guard to say where.
        let not_kept = guard.guard.at(Error::lost(NOT_KEPT));
        if out.is_err() {
            guard.blocking_release();
        } else if guard.blocking_complete() == Completion::Lost {
            return Err(not_kept);
        }
        Ok(Some(out))
    }
}

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the client
/// lives on, they end with an error that says so.
impl PeriodicGuard {
    /// Blocking form of [`PeriodicGuard::complete`], for threads without async.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_complete(self) -> Completion {
        let runtime = self.guard.runtime().clone();
        runtime.wait_for(self.complete())
    }

    /// Blocking form of [`PeriodicGuard::release`], for threads without async.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_release(self) -> Ending {
        self.guard.blocking_release()
    }
}
