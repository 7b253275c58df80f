// Proves: guard-unkept
//! A held lock, as its user sees it.

mod hold;
mod protect;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::ending::{Completion, Ending, LossReason};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::owner::{Owner, OwnerBytes};
use crate::process::Shares;
use crate::runtime::RuntimeHandle;
use crate::token::FencingToken;

pub(crate) use hold::Hold;
pub(crate) use protect::protect;

/// A held lock. It is renewed in the background while the guard lives, in the process that acquired it. In a fork of
/// that process it counts as lost.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// use std::time::Duration;
///
/// let guard = lock.acquire().await?;
/// // Dropped if the lock is lost.
/// let written = guard.protect(async { format!("with token {}", guard.token()) }).await?;
/// // Between steps that can't be interrupted.
/// guard.check()?;
/// if guard.valid_for() < Duration::from_secs(5) {
///     guard.renew(Duration::from_secs(30)).await?;
/// }
/// println!("{written}; it was {:?}", guard.release().await);
/// # Ok(()) }
/// ```
///
/// Dropping the guard, on any thread, releases the lock in the background. If it is dropped as the last act of a
/// program, the runtime may end before the release is sent: then the server frees the lock one ttl later.
/// [`Lock::run`](crate::Lock::run), [`Guard::release`], [`Client::shutdown`](crate::Client::shutdown) and dedicated
/// clients don't have that gap.
///
/// A [reentrant](crate::LockBuilder::reentrant) lock has one guard for each time that it was entered. The last guard to
/// go releases the lock; each earlier one renews it when it goes.
///
/// The lock is held for as long as the guard is kept. The compiler warns of a guard that is not kept:
///
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
/// lock.acquire().await?; // warning: unused `Guard` that must be used
/// # Ok(()) }
/// ```
///
/// ```
/// # #![deny(unused_must_use)]
/// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
/// let _guard = lock.acquire().await?;
/// # Ok(()) }
/// ```
#[must_use = "a lock is released when its guard is dropped, here at once: keep it in a variable (`let _guard = …`; `_` \
              alone keeps nothing)"]
pub struct Guard {
    /// `None` only after the guard has released or is being dropped.
    hold: Option<Arc<Hold>>,
}

impl Guard {
    /// Returns the fencing token. Give it to the resource, which refuses a lower token than it has seen.
    pub fn token(&self) -> FencingToken {
        self.hold().granted.token
    }

    /// Runs `work` while the lock is held, and drops `work` when the lock is lost.
    ///
    /// The clock is read before every poll of `work`: a process that did not run for a while does not resume work that
    /// it may no longer do. It is read once more after the end of `work`: `Ok` means that the lock was held until then.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lock was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `work` is.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let out = protect(self.lost(), || self.still_held(), work).await;
        out.map_err(|cause| self.lost_because(cause))
    }

    /// Returns an error unless the lock is certainly held. Call it between the steps of work that can't be interrupted.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), with the reason, if the lock is not certainly held.
    pub fn check(&self) -> Result<()> {
        self.still_held().map_err(|cause| self.lost_because(cause))
    }

    /// Returns whether the lock is certainly held now. The answer is also right at the first call after this process
    /// was stopped.
    pub fn is_held(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// Returns for how long the lock is certainly held if no renewal succeeds; zero once it is lost.
    ///
    /// Counted from before the server was asked, less 1 % and 2 ms, on a clock that goes on while the machine sleeps.
    pub fn valid_for(&self) -> Duration {
        self.hold().valid_for()
    }

    /// Waits until the lock is lost, and returns the reason. Resolves before another owner can be granted the lock.
    ///
    /// In these situations it may resolve later: a revoke with [`When::Now`](crate::driver::When::Now), a server that
    /// forgets the lock, a server's clock that is set forward, and a process that does not run.
    /// [The semantics](https://github.com/onelock/onelock/blob/main/docs/semantics.md) describe them.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.hold().lost().await
    }

    /// Waits until the lock is certain for less than `before`, while there is still time to stop the work cleanly, or
    /// until it is lost. Returns why the lock is lost, or why it will be.
    ///
    /// A renewed lock goes down to two thirds of its ttl before every renewal. With a `before` of less than half of the
    /// ttl, this future resolves if a renewal has failed, if `max_hold` is near, or if the lock was lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn at_risk(&self, before: Duration) -> LossReason {
        self.hold().at_risk(before).await
    }

    /// Renews the lock: keeps it for `ttl` from now, never for less than the time that was left. Returns for how long
    /// it is then certain.
    ///
    /// # Errors
    ///
    /// - [`Lost`](crate::ErrorKind::Lost): the lock is lost.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the server did not answer; the lock is held for as long as
    ///   before.
    /// - [`Invalid`](crate::ErrorKind::Invalid): `ttl` is outside the backend's bounds.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the renewal goes on.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let hold = self.hold();
        let at = |e| hold.at("renew", e);
        hold.shared.check_ttl(ttl).map_err(at)?;
        hold.renew(ttl).await.map_err(at)
    }

    /// Releases the lock and returns whether it was held until then.
    ///
    /// Being late is not an error. If the server does not answer, this call waits at most until the lease has ended,
    /// and the release goes on in the background. If the lock has a `min_hold`, the call waits for that time first.
    ///
    /// If a [reentrant](crate::LockBuilder::reentrant) lock has other guards, it stays held and is renewed.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the release goes on in the background.
    pub async fn release(mut self) -> Ending {
        let Some(hold) = self.take() else { return Ending::Expired };
        let ending = match Arc::strong_count(&hold) {
            // A task that enters at this moment has seen the lock held.
            1 => Ending::Released,
            _ => {
                hold.renew_and_wait().await;
                hold.ending_now()
            }
        };
        // If several guards go at the same time, exactly one of them is the last.
        match Arc::into_inner(hold) {
            Some(last) => last.release().await,
            None => ending,
        }
    }

    /// Leaves the lock to its lease: gives the guard up without a release. Returns the holder as the server has it, with
    /// which any client of the server can end the hold, in this process or another one.
    ///
    /// Nothing renews the lock any more, and nothing tells of its loss: it ends with what is left of its lease. Before,
    /// [`renew`](Self::renew) it for as long as the work may take. [`Lock::revoke`](crate::Lock::revoke) of the returned
    /// holder with [`When::Now`](crate::When::Now) frees the name: [`Revoked::Free`](crate::Revoked::Free) says that the
    /// lock was held until then, [`Revoked::NotHeld`](crate::Revoked::NotHeld) that its lease had ended, or that it was
    /// revoked or released before.
    ///
    /// ```
    /// # use lock_core as onelock;
    /// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
    /// use std::time::Duration;
    ///
    /// let guard = lock.acquire().await?;
    /// guard.renew(Duration::from_secs(3600)).await?;
    /// let holder = guard.leave().await?;
    /// let handed_on = holder.as_bytes().to_vec(); // to another process, which makes the holder of it
    ///
    /// let holder = onelock::OwnerBytes::new(handed_on);
    /// println!("{:?}", lock.revoke(&holder, onelock::When::Now).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// After an error the lock is released.
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) where a lease belongs to a session, which ends with its client.
    /// - [`Invalid`](crate::ErrorKind::Invalid) for a lock with a `max_hold`, and while a
    ///   [reentrant](crate::LockBuilder::reentrant) lock has other guards.
    /// - [`Lost`](crate::ErrorKind::Lost): the lock is lost.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the lock is left or released.
    pub async fn leave(self) -> Result<OwnerBytes> {
        let holder = self.hold().to_be_left().await.map_err(|e| self.hold().at("leave", e))?;
        // Made while there is a guard to say where.
        let lost = self.hold().at("leave", LossReason::Expired.to_error());
        match self.complete().await {
            Completion::Kept => Ok(holder),
            Completion::SlotOver | Completion::Lost => Err(lost),
        }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        &self.hold().terms.name
    }

    /// Returns this acquisition's identity, as the server stores it.
    pub fn owner(&self) -> Owner {
        self.hold().granted.owner
    }

    pub(crate) fn new(hold: Arc<Hold>) -> Guard {
        hold.granted.holds.add_guard();
        Guard { hold: Some(hold) }
    }

    /// Marks that the user gets this guard: from now on `min_hold` counts. A guard that goes before that is released at
    /// once.
    pub(crate) fn handed_over(self) -> Guard {
        self.hold().mark_handed_over();
        self
    }

    /// Keeps the lock to the end of its slot, if it is held once per period; otherwise leaves it to its lease.
    pub(crate) async fn complete(mut self) -> Completion {
        let Some(hold) = self.take() else { return Completion::Lost };
        match Arc::into_inner(hold) {
            Some(last) => last.complete().await,
            // A lock that is held once per period is not reentrant: it has one guard.
            None => Completion::Lost,
        }
    }

    /// Takes the hold out of a guard that goes. Returns `None` in a fork, which keeps it for ever: to drop it would take
    /// locks that a thread of the parent may hold.
    fn take(&mut self) -> Option<Arc<Hold>> {
        let hold = self.hold.take()?;
        if hold.runtime.is_inherited() {
            mem::forget(hold);
            return None;
        }
        hold.granted.holds.remove_guard();
        Some(hold)
    }

    pub(crate) fn still_held(&self) -> Result<(), LossReason> {
        self.hold().loss().map_or(Ok(()), Err)
    }

    pub(crate) fn runtime(&self) -> &Shares<RuntimeHandle> {
        &self.hold().runtime
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.hold().shared.clock
    }

    pub(crate) fn lost_because(&self, cause: LossReason) -> Error {
        self.at(cause.to_error())
    }

    /// Adds to an error which lock it is about.
    pub(crate) fn at(&self, error: Error) -> Error {
        self.hold().at("hold", error)
    }

    fn hold(&self) -> &Hold {
        self.hold.as_deref().expect("a guard has its hold until it goes")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(hold) = self.take() else { return };
        if Arc::strong_count(&hold) > 1 {
            hold.renew_in_background();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
