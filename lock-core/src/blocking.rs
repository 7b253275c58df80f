//! The same calls for threads without async. The client does its work on other threads: best on a thread of its own,
//! which [`blocking_open`] gives it.
//!
//! A guard needs no such calls for `is_held`, `valid_for`, `token` and `check`, which make no request. It may be
//! dropped on any thread.

use std::time::Duration;

use tokio::runtime::Builder;

use crate::client::Client;
use crate::driver::{Finding, Inspection, Revoked, When};
use crate::ending::{Ending, LossReason};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::multi::{MultiGuard, MultiLock};
use crate::name::Name;
use crate::options::Options;
use crate::owner::OwnerBytes;

/// Opens a client for a program without async.
///
/// `connect` is the function of any backend. It gets `options` with a [dedicated](Options::dedicated) thread.
///
/// ```
/// # use lock_core as onelock;
/// # fn example(connect: impl AsyncFnOnce(lock_core::Options) -> lock_core::Result<lock_core::Client>) {
/// # let work = || ();
/// # let _ = (|| -> lock_core::Result<()> {
/// let client = onelock::blocking_open(Default::default(), connect)?;
/// let lock = client.lock("ledger").build()?;
/// let guard = lock.blocking_acquire()?;
/// work();
/// guard.check()?;
/// # Ok(()) })();
/// # }
/// ```
///
/// # Errors
///
/// [`Rejected`](crate::ErrorKind::Rejected) if the runtime for this call could not be made; otherwise the error of
/// `connect`.
///
/// # Panics
///
/// Inside async code. So do all calls whose names begin with `blocking`, because they would stop other tasks.
#[track_caller]
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

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the client
/// lives on, they end with an error that says so.
impl Client {
    /// Blocking form of [`Client::check`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_check(&self) -> Result<Vec<Finding>> {
        self.runtime.wait_for(self.check())
    }

    /// Blocking form of [`Client::list`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_list(&self, beginning: &str) -> Result<Vec<(Name, Inspection)>> {
        self.runtime.wait_for(self.list(beginning))
    }

    /// Blocking form of [`Client::init`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_init(&self) -> Result<String> {
        self.runtime.wait_for(self.init())
    }

    /// Blocking form of [`Client::shutdown`], for threads without async.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_shutdown(&self, limit: Duration) -> usize {
        self.runtime.wait_for(self.shutdown(limit))
    }
}

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the client
/// lives on, they end with an error that says so.
impl Lock {
    /// Blocking form of [`Lock::acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<Guard> {
        self.runtime().wait_for(self.acquire())
    }

    /// Blocking form of [`Lock::try_acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_try_acquire(&self) -> Result<Option<Guard>> {
        self.runtime().wait_for(self.try_acquire())
    }

    /// Acquires the lock, runs `work` on this thread, and releases the lock.
    ///
    /// Nothing can stop `work` if the lock is lost: call [`Guard::check`] between its steps.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was done.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T> {
        finish(self.blocking_acquire()?, work)
    }

    /// Runs `work` under the lock as [`blocking_run`](Self::blocking_run), if the lock is free. Returns
    /// `None`, and does not run `work`, if another owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was
    /// done.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_try_run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<Option<T>> {
        match self.blocking_try_acquire()? {
            Some(guard) => finish(guard, work).map(Some),
            None => Ok(None),
        }
    }

    /// Blocking form of [`Lock::inspect`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_inspect(&self) -> Result<Inspection> {
        self.runtime().wait_for(self.inspect())
    }

    /// Blocking form of [`Lock::revoke`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`revoke`](Self::revoke).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_revoke(&self, holder: &OwnerBytes, when: When) -> Result<Revoked> {
        self.runtime().wait_for(self.revoke(holder, when))
    }
}

#[track_caller]
fn finish<T>(guard: Guard, work: impl FnOnce(&Guard) -> T) -> Result<T> {
    let out = work(&guard);
    let held = guard.check();
    guard.blocking_release();
    held.map(|()| out)
}

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the client
/// lives on, they end with an error that says so.
impl Guard {
    /// Waits until the lock is lost, at most for `limit`. Returns the reason, or `None` if the lock is still held.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_lost(&self, limit: Duration) -> Option<LossReason> {
        let clock = self.clock();
        self.runtime().wait_for(clock.until(clock.now() + limit, self.lost()))
    }

    /// Blocking form of [`Guard::renew`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_renew(&self, ttl: Duration) -> Result<Duration> {
        self.runtime().wait_for(self.renew(ttl))
    }

    /// Blocking form of [`Guard::release`], for threads without async.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_release(self) -> Ending {
        let runtime = self.runtime().clone();
        runtime.wait_for(self.release())
    }
}

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the first
/// lock's client lives on, they end with an error that says so.
impl MultiLock {
    /// Blocking form of [`MultiLock::acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<MultiGuard> {
        self.first().runtime().wait_for(self.acquire())
    }

    /// Blocking form of [`MultiLock::try_acquire`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_try_acquire(&self) -> Result<Option<MultiGuard>> {
        self.first().runtime().wait_for(self.try_acquire())
    }

    /// Acquires all locks, runs `work` on this thread, and releases them. See [`Lock::blocking_run`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Lost`](crate::ErrorKind::Lost) if one of the locks was lost before `work` was
    /// done.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_run<T>(&self, work: impl FnOnce(&MultiGuard) -> T) -> Result<T> {
        let guard = self.blocking_acquire()?;
        let out = work(&guard);
        let held = guard.check();
        guard.blocking_release();
        held.map(|()| out)
    }
}

/// The calls for threads without async. They panic inside async code. If no thread runs the runtime that the first
/// lock's client lives on, they end with an error that says so.
impl MultiGuard {
    /// Waits until one of the locks is lost, at most for `limit`. Returns its name and the reason, or `None` if all are
    /// still held.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_lost(&self, limit: Duration) -> Option<(&Name, LossReason)> {
        let first = self.first();
        let clock = first.clock();
        first.runtime().wait_for(clock.until(clock.now() + limit, self.lost()))
    }

    /// Blocking form of [`MultiGuard::renew`], for threads without async.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_renew(&self, ttl: Duration) -> Result<Duration> {
        self.first().runtime().wait_for(self.renew(ttl))
    }

    /// Blocking form of [`MultiGuard::release`], for threads without async.
    ///
    /// # Panics
    ///
    /// Inside async code.
    #[track_caller]
    pub fn blocking_release(self) -> Ending {
        let runtime = self.first().runtime().clone();
        runtime.wait_for(self.release())
    }
}
