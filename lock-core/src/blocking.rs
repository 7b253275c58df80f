//! The same calls for threads without async. The client does its work elsewhere: best on a thread of its own, which
//! [`blocking_open`] gives it.
//!
//! A guard needs nothing of this: its `is_held`, `valid_for`, `token` and `check` ask nobody, and it may be dropped
//! anywhere.

use std::time::Duration;

use tokio::runtime::Builder;

use crate::client::{Client, Options};
use crate::driver::{Cause, Finding, Inspection, Revoked, When};
use crate::error::{Error, Result};
use crate::guard::{Ending, Guard};
use crate::lock::Lock;
use crate::multi::{MultiGuard, MultiLock};
use crate::name::Name;
use crate::owner::OwnerBytes;

/// Opens a client for a program without async. `connect` is any backend's; it is given `options` with a
/// [dedicated](Options::dedicated) thread.
///
/// ```
/// # fn example(connect: impl AsyncFnOnce(lock_core::Options) -> lock_core::Result<lock_core::Client>) {
/// # let work = || ();
/// # let _ = (|| -> lock_core::Result<()> {
/// let client = lock_core::blocking_open(Default::default(), connect)?;
/// let lock = client.lock("ledger").build()?;
/// let guard = lock.blocking_acquire()?;
/// work();
/// guard.check()?;
/// # Ok(()) })();
/// # }
/// ```
///
/// # Panics
///
/// Inside async code, as do all calls whose names begin with `blocking`: there they would stop other tasks.
pub fn blocking_open(
    options: Options,
    connect: impl AsyncFnOnce(Options) -> Result<Client>,
) -> Result<Client> {
    // Only to wait on: what is opened lives on the client's own thread.
    let waiting = Builder::new_current_thread().enable_all().build().map_err(|e| {
        Error::rejected(format!("a runtime to open the client with could not be made: {e}")).with_source(e)
    })?;
    waiting.block_on(connect(options.dedicated()))
}

/// Without async. On a thread of the runtime that the client lives on, these calls panic; while nothing runs that
/// runtime, they wait for it.
impl Client {
    /// [`Client::check`], for threads without async.
    pub fn blocking_check(&self) -> Result<Vec<Finding>> {
        self.keeper.wait_for(self.check())
    }

    /// [`Client::init`], for threads without async.
    pub fn blocking_init(&self) -> Result<String> {
        self.keeper.wait_for(self.init())
    }

    /// [`Client::shutdown`], for threads without async.
    pub fn blocking_shutdown(&self, limit: Duration) -> usize {
        self.keeper.wait_for(self.shutdown(limit))
    }
}

/// Without async. On a thread of the runtime that the client lives on, these calls panic; while nothing runs that
/// runtime, they wait for it.
impl Lock {
    /// [`Lock::acquire`], for threads without async.
    pub fn blocking_acquire(&self) -> Result<Guard> {
        self.keeper().wait_for(self.acquire())
    }

    /// [`Lock::try_acquire`], for threads without async.
    pub fn blocking_try_acquire(&self) -> Result<Option<Guard>> {
        self.keeper().wait_for(self.try_acquire())
    }

    /// Acquires the lock, runs `work` on this thread, and releases it.
    ///
    /// Errors as [`acquire`](Self::acquire). `Lost` if the lock was lost before `work` was done; but nothing can stop
    /// `work` then: it asks [`Guard::check`] between its steps.
    pub fn blocking_run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T> {
        finish(self.blocking_acquire()?, work)
    }

    /// [`blocking_run`](Self::blocking_run) if the lock is free; `None`, without running anything, if it isn't.
    pub fn blocking_try_run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<Option<T>> {
        match self.blocking_try_acquire()? {
            Some(guard) => finish(guard, work).map(Some),
            None => Ok(None),
        }
    }

    /// [`Lock::inspect`], for threads without async.
    pub fn blocking_inspect(&self) -> Result<Inspection> {
        self.keeper().wait_for(self.inspect())
    }

    /// [`Lock::revoke`], for threads without async.
    pub fn blocking_revoke(&self, holder: &OwnerBytes, when: When) -> Result<Revoked> {
        self.keeper().wait_for(self.revoke(holder, when))
    }
}

fn finish<T>(guard: Guard, work: impl FnOnce(&Guard) -> T) -> Result<T> {
    let out = work(&guard);
    let held = guard.check();
    let _: Ending = guard.blocking_release();
    held.map(|()| out)
}

/// Without async. On a thread of the runtime that the client lives on, these calls panic; while nothing runs that
/// runtime, they wait for it.
impl Guard {
    /// Waits until the lock is lost, at most for `limit`: why, or `None` if it is held still.
    pub fn blocking_lost(&self, limit: Duration) -> Option<Cause> {
        let clock = self.clock();
        self.keeper().wait_for(clock.until(clock.now() + limit, self.lost()))
    }

    /// [`Guard::renew`], for threads without async.
    pub fn blocking_renew(&self, ttl: Duration) -> Result<Duration> {
        self.keeper().wait_for(self.renew(ttl))
    }

    /// [`Guard::release`], for threads without async.
    pub fn blocking_release(self) -> Ending {
        let keeper = self.keeper().clone();
        keeper.wait_for(self.release())
    }
}

/// Without async. On a thread of the runtime that the first lock's client lives on, these calls panic; while nothing
/// runs that runtime, they wait for it.
impl MultiLock {
    /// [`MultiLock::acquire`], for threads without async.
    pub fn blocking_acquire(&self) -> Result<MultiGuard> {
        self.first().keeper().wait_for(self.acquire())
    }

    /// [`MultiLock::try_acquire`], for threads without async.
    pub fn blocking_try_acquire(&self) -> Result<Option<MultiGuard>> {
        self.first().keeper().wait_for(self.try_acquire())
    }

    /// Acquires all, runs `work` on this thread, and releases them. As [`Lock::blocking_run`].
    pub fn blocking_run<T>(&self, work: impl FnOnce(&MultiGuard) -> T) -> Result<T> {
        let guard = self.blocking_acquire()?;
        let out = work(&guard);
        let held = guard.check();
        let _: Ending = guard.blocking_release();
        held.map(|()| out)
    }
}

/// Without async. On a thread of the runtime that the first lock's client lives on, these calls panic; while nothing
/// runs that runtime, they wait for it.
impl MultiGuard {
    /// Waits until one of them is lost, at most for `limit`: which, and why, or `None` if all are held still.
    pub fn blocking_lost(&self, limit: Duration) -> Option<(&Name, Cause)> {
        let first = self.first();
        let clock = first.clock();
        first.keeper().wait_for(clock.until(clock.now() + limit, self.lost()))
    }

    /// [`MultiGuard::renew`], for threads without async.
    pub fn blocking_renew(&self, ttl: Duration) -> Result<Duration> {
        self.first().keeper().wait_for(self.renew(ttl))
    }

    /// [`MultiGuard::release`], for threads without async.
    pub fn blocking_release(self) -> Ending {
        let keeper = self.first().keeper().clone();
        keeper.wait_for(self.release())
    }
}
