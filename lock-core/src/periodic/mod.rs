//! Locks for work that is done once per period, on one of all the machines that try.

mod blocking;
mod guard;

use std::fmt;

use crate::error::Result;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::name::Name;
use crate::period::Period;

pub use guard::PeriodicGuard;

/// A lock for work that is done once in each slot of a [`Period`], by the *server's* clock. Cheap to clone; holds
/// nothing. Made by [`Lock::once_per`].
///
/// A run that ends well keeps the lock to the end of its slot, with no process alive
/// ([`PeriodicGuard::complete`]). A run that fails gives it back at once, and another client can do the work in the
/// same slot. A run that dies gives it back when its lease ends.
///
/// The slot of a run is the one in which the lock was granted. So the clocks of the machines do not matter. The next
/// slot can be taken once the server's clock has reached it, or later by the time that two requests of the last
/// completion have taken. `docs/semantics.md` says what is promised if the server's clock is set.
///
/// ```
/// # use std::time::Duration;
/// # async fn example(client: lock_core::Client) -> lock_core::Result<()> {
/// use lock_core::Period;
///
/// let hourly = Period::every(Duration::from_secs(3600))?;
/// let report = client.lock("report").build()?.once_per(hourly)?;
/// match report.try_run(async |_guard| std::fs::write("report", "done")).await? {
///     Some(Ok(())) => println!("done"),
///     Some(Err(error)) => println!("failed, and may be tried again: {error}"),
///     None => println!("another machine does it, or has done it in this hour"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PeriodicLock {
    lock: Lock,
    period: Period,
}

impl PeriodicLock {
    pub(crate) fn new(lock: Lock, period: Period) -> PeriodicLock {
        PeriodicLock { lock, period }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        self.lock.name()
    }

    /// Returns the period.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Waits for the lock: until no other client does the work, and until the end of the slot if it is done. Returns its
    /// guard.
    ///
    /// Two requests for the server's time are part of it, one before the first attempt and one after the grant. Each may
    /// take as long as an attempt.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]. [`Unsupported`](crate::ErrorKind::Unsupported) if the server tells no time by which its
    /// leases end. Nothing was taken then.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<PeriodicGuard> {
        self.lock.acquire().await.map(PeriodicGuard::new)
    }

    /// Takes the lock if it is free. Returns `None` if another client does the work, or if it is done in this slot.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), but never `Timeout`.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<PeriodicGuard>> {
        Ok(self.lock.try_acquire().await?.map(PeriodicGuard::new))
    }

    /// Waits for the lock and runs `work`. If `work` returns `Ok`, the slot is kept
    /// ([`PeriodicGuard::complete`]). If it returns `Err`, the lock is released.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was done, and
    /// `work` was dropped; or if `work` returned `Ok` and the lock was lost before the slot was kept. Then another
    /// client may do the work in the same slot.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, `work` is dropped with it, and the lock is released in the background. If `work` has
    /// ended, the future is as cancel safe as [`PeriodicGuard::complete`].
    pub async fn run<T, E>(&self, work: impl AsyncFnOnce(&Guard) -> Result<T, E>) -> Result<Result<T, E>> {
        self.acquire().await?.run(work).await
    }

    /// Runs `work` as [`run`](Self::run), if the lock is free. Returns `None`, and does not run `work`, if
    /// another client does the work, or if it is done in this slot.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), but never `Timeout`.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn try_run<T, E>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Option<Result<T, E>>> {
        match self.try_acquire().await? {
            Some(guard) => guard.run(work).await.map(Some),
            None => Ok(None),
        }
    }
}

impl Lock {
    /// Returns a lock for work that is done once in each slot of `period`, on the same terms.
    ///
    /// A run that ends less than one ttl before its slot's end waits for that end. So let the ttl be short, compared with
    /// the period.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if leases belong to sessions: no slot can be kept there once its
    ///   process has ended.
    /// - [`Invalid`](crate::ErrorKind::Invalid) if the period is longer than the longest ttl that the backend allows, or
    ///   if the lock is [reentrant](crate::LockBuilder::reentrant).
    pub fn once_per(self, period: Period) -> Result<PeriodicLock> {
        self.with_period(period).map(|lock| PeriodicLock::new(lock, period))
    }
}

impl fmt::Debug for PeriodicLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicLock").field("lock", &self.lock).field("period", &self.period).finish()
    }
}
