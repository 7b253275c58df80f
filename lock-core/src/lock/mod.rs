//! A lock and its terms: what users call.

mod acquire;
pub(crate) mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquisition::{Shared, Terms};
use crate::backoff;
use crate::clock::Clock;
use crate::driver::{Driver, Info, Inspection, Lease, Revocation, Revoked, When};
use crate::error::{Effect, Error, Result};
use crate::guard::{Guard, Hold};
use crate::human_duration::HumanDuration;
use crate::name::Name;
use crate::owner::{Owner, OwnerBytes};
use crate::period::Period;
use crate::process::Shares;
use crate::reentrant::{HoldKey, Reentrant};
use crate::runtime::RuntimeHandle;

/// The lease of a lock whose terms name no other: the time for which it is kept without a renewal.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A name and the terms on which the lock of that name is taken. Cheap to clone; holds nothing.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// let lock = client.lock("nightly-report").build()?;
/// let report = lock.run(async |_guard| "written").await?; // waits for its turn
/// match lock.try_acquire().await? {
///     Some(guard) => println!("{report}, and ours again: {:?}", guard.release().await),
///     None => println!("{report}; another client has the lock now"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lock {
    shared: Shares<Shared>,
    runtime: Shares<RuntimeHandle>,
    terms: Arc<Terms>,
    wait: Option<Duration>,
    reentrant: Option<Reentrant>,
}

impl Lock {
    /// Acquires the lock, runs `work` while the lock is held, and releases it. This is the simplest way to use a lock.
    ///
    /// When this call returns, the lock has been given back. If the lock has a [`min_hold`](crate::LockBuilder::min_hold), the
    /// call waits until that time is over.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was done;
    /// `work` is then dropped.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, `work` is dropped with it, and the lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
    /// let report = lock.run(async |guard| format!("made with token {}", guard.token())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        self.finish(guard, work).await
    }

    /// Waits for the lock and returns its guard.
    ///
    /// Waits at most for the [`wait`](crate::LockBuilder::wait) of the lock's terms; by default without a limit. However short
    /// the wait is, the server has 100 ms for its first answer.
    ///
    /// Poll this future to completion or drop it. A future that was polled and is then put aside, as in a `select!`
    /// that goes on with something else, keeps its place among the tasks of this client, and the others wait behind it.
    /// On a server that has a queue it keeps its place there too, and other processes wait behind it. If you spawn it
    /// as a task, it goes on by itself.
    ///
    /// # Errors
    ///
    /// - [`Timeout`](crate::ErrorKind::Timeout): the wait is over, and another holder has the lock (the message names
    ///   that holder, and [`Error::holder`] has it), or another caller of this client was before this one.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the wait is over and the server has not answered. Also if this
    ///   client is shut down, if its runtime has ended, if the driver panicked, or in a fork of the process that opened
    ///   the client. While the wait lasts, attempts that fail with `Unavailable` are repeated. Without a limit, also if
    ///   the client's runtime has stood still for 5 s: no thread drives it, or code blocks it
    ///   ([`Options::dedicated`](crate::Options::dedicated)).
    /// - [`Lost`](crate::ErrorKind::Lost): the lock is [reentrant](crate::LockBuilder::reentrant), and its owner has lost it
    ///   but still has one of its guards.
    /// - Any other error of the server, such as [`Rejected`](crate::ErrorKind::Rejected), is returned at once.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, it leaves neither the lock nor a place in a queue: a request that is on its way is
    /// finished and undone in the background.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_in_part().await.map(Guard::handed_over)
    }

    /// Takes the lock if it is free; returns `None` if another owner holds it.
    ///
    /// Makes one attempt, and returns within the patience (by default a third of the ttl, but at least 100 ms and at
    /// most 5 s).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but never `Timeout`. [`Unavailable`](crate::ErrorKind::Unavailable) if the server
    /// has not answered within the patience, or if the client's runtime has stood still for that long.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.try_acquire_in_part().await?.map(Guard::handed_over))
    }

    /// Runs `work` under the lock as [`run`](Self::run), if the lock is free. Returns `None`, and does not
    /// run `work`, if another owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was
    /// done; `work` is then dropped.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn try_run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<Option<T>> {
        match self.try_acquire().await? {
            Some(guard) => self.finish(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the holder of the lock and, where the server knows them, the waiters.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered within the patience; any other
    /// error as the driver returns it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it changes nothing on the server.
    pub async fn inspect(&self) -> Result<Inspection> {
        let (driver, name) = (self.shared.driver.clone(), self.terms.name.clone());
        let patience = self.shared.patience_for(self.terms.ttl);
        let inspect = async move { driver.inspect(&name, patience).await };
        let outcome = self.runtime.run(&self.shared.clock, patience, inspect).await;
        outcome.map_err(|e| self.at("inspect", e))
    }

    /// Takes the lock from `holder`, as [`inspect`](Self::inspect) showed it: from now on that holder's renewals fail.
    ///
    /// With [`When::HoldersDeadline`] the name becomes free when the holder's last guard goes, and at the holder's
    /// deadline at the latest. With [`When::Now`] it becomes free at once. Until that deadline two owners may then run,
    /// and only the token keeps them apart. Where the work is [done](crate::driver::Entry::is_done), no client holds the
    /// lock: then it becomes free at once in any case, and the work can be done again in the same slot.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server has not answered within the patience; any other
    /// error as the driver returns it, such as [`Rejected`](crate::ErrorKind::Rejected) for a key that no lock client
    /// can have written.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the request goes on in the background and may still take effect.
    pub async fn revoke(&self, holder: &OwnerBytes, when: When) -> Result<Revoked> {
        let (driver, name) = (self.shared.driver.clone(), self.terms.name.clone());
        let patience = self.shared.patience_for(self.terms.ttl);
        let mut revocation = Revocation {
            holder: holder.clone(),
            by: Owner::mint(&self.shared.random),
            label: self.terms.label.clone(),
            when,
            patience,
        };
        let revoked = async move {
            if when == When::HoldersDeadline && is_done(&*driver, &name, &revocation).await? {
                revocation.when = When::Now;
            }
            driver.revoke(&name, revocation).await
        };
        // Two requests.
        let outcome = self.runtime.run(&self.shared.clock, patience * 2, revoked).await;
        outcome.map_err(|e| self.at("revoke", e))
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        &self.terms.name
    }

    /// Returns how long the lock is kept without a renewal: the ttl that was asked for, or the time nearest to
    /// [`DEFAULT_TTL`] that the backend allows.
    pub fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// Acquires one of several locks. The user gets its guard only together with the guards of the other locks.
    pub(crate) async fn acquire_in_part(&self) -> Result<Guard> {
        let Some(owner) = &self.reentrant else { return self.acquire_anew().await.map(Guard::new) };
        let granted = async { self.acquire_anew().await.map(Some) };
        let guard = Box::pin(self.enter(owner, granted)).await?;
        Ok(guard.expect("a wait ends with a hold or an error"))
    }

    /// Does for `try_acquire` what [`acquire_in_part`](Self::acquire_in_part) does for `acquire`.
    pub(crate) async fn try_acquire_in_part(&self) -> Result<Option<Guard>> {
        let granted = self.try_anew();
        match &self.reentrant {
            None => Ok(granted.await?.map(Guard::new)),
            Some(owner) => Box::pin(self.enter(owner, granted)).await,
        }
    }

    async fn finish<T>(&self, guard: Guard, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let out = guard.protect(work(&guard)).await;
        // The lock was held while the work was done, even if it was lost while the release was on its way.
        guard.release().await;
        out
    }

    /// Returns a guard of what this owner holds already, or else of the hold that `granted` returns.
    async fn enter(
        &self,
        owner: &Reentrant,
        granted: impl Future<Output = Result<Option<Arc<Hold>>>>,
    ) -> Result<Option<Guard>> {
        let entered = self.runtime.here(owner.enter(self.hold_key(), granted)).await;
        let entered = entered.unwrap_or_else(|why| Err(self.runtime.unanswered(why, Effect::NotApplied)));
        let hold = entered.map_err(|e| self.at("acquire", e))?;
        Ok(hold.map(Guard::new))
    }

    /// Returns this lock for work that is done once in each slot of `period`.
    pub(crate) fn with_period(self, period: Period) -> Result<Lock> {
        let (info, length) = (self.info(), period.length());
        let refused = if info.lease == Lease::Session {
            Error::unsupported(
                "a lease belongs to a session here, so no slot can be kept once its process has ended",
            )
        } else if length > info.max_ttl {
            let (length, most) = (HumanDuration(length), HumanDuration(info.max_ttl));
            Error::invalid(format!("the period {length} is longer than this backend's longest ttl, {most}"))
        } else if self.reentrant.is_some() {
            Error::invalid("a reentrant lock can't be held once per period: its last guard releases it")
        } else {
            let terms = Terms { period: Some(period), ..Terms::clone(&self.terms) };
            return Ok(Lock { terms: Arc::new(terms), ..self });
        };
        Err(self.at("build", refused))
    }

    /// Returns this lock with a wait of at most `most`.
    pub(crate) fn waiting_at_most(&self, most: Duration) -> Lock {
        Lock { wait: Some(self.wait.map_or(most, |wait| wait.min(most))), ..self.clone() }
    }

    pub(crate) fn info(&self) -> Arc<Info> {
        self.shared.info()
    }

    pub(crate) fn runtime(&self) -> &Shares<RuntimeHandle> {
        &self.runtime
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(crate) fn pause_after_error(&self, round: u32) -> Duration {
        backoff::after_error(round, &self.shared.random)
    }

    /// The key under which a reentrant owner finds what it holds. A caller that waits twice at the same place waits for
    /// itself.
    pub(crate) fn hold_key(&self) -> HoldKey {
        (Arc::as_ptr(&self.shared).addr(), self.terms.name.clone())
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }
}

/// Returns whether the work of this holder is done: then no client relies on the lock up to a deadline.
async fn is_done(driver: &dyn Driver, name: &Name, revocation: &Revocation) -> Result<bool> {
    let shown = driver.inspect(name, revocation.patience).await?.holder;
    Ok(shown.is_some_and(|shown| shown.owner == revocation.holder && shown.is_done()))
}

impl fmt::Debug for Lock {
    /// One line: the name, the server, and the terms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (info, Terms { name, ttl, renewed, max_hold, min_hold, .. }) = (self.info(), &*self.terms);
        f.debug_struct("Lock")
            .field("name", name)
            .field("backend", &info.backend)
            .field("server", &info.server)
            .field("identity", &info.identity)
            .field("ttl", ttl)
            .field("renewed", renewed)
            .field("max_hold", max_hold)
            .field("min_hold", min_hold)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
