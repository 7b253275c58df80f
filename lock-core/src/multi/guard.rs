// Proves: guard-unkept
//! The guard of several locks.

use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::ending::{Ending, LossReason};
use crate::error::Result;
use crate::guard::{Guard, protect};
use crate::name::Name;

/// Several held locks. They are lost when one of them is lost. When this guard is dropped, all are released in the
/// background.
///
/// The compiler warns of a guard that is not kept, as of a [`Guard`]:
///
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # async fn example(locks: lock_core::MultiLock) -> lock_core::Result<()> {
/// locks.acquire().await?; // warning: unused `MultiGuard` that must be used
/// # Ok(()) }
/// ```
///
/// ```
/// # #![deny(unused_must_use)]
/// # async fn example(locks: lock_core::MultiLock) -> lock_core::Result<()> {
/// let _guard = locks.acquire().await?;
/// # Ok(()) }
/// ```
#[must_use = "the locks are released when their guard is dropped, here at once: keep it in a variable (`let _guard = …`; \
              `_` alone keeps nothing)"]
#[derive(Debug)]
pub struct MultiGuard {
    pub(super) guards: Vec<Guard>,
}

impl MultiGuard {
    /// Returns the guard of each lock, in the order in which they were taken. Each has its own token.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns whether all locks are certainly held now.
    pub fn is_held(&self) -> bool {
        self.all_held().is_ok()
    }

    /// Returns for how long all locks are certainly held if no renewal succeeds; zero once one is lost.
    pub fn valid_for(&self) -> Duration {
        self.guards.iter().map(Guard::valid_for).min().unwrap_or_default()
    }

    /// Returns an error unless all locks are certainly held.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), with the lock's name and the reason, if one is not certainly held.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Waits until one of the locks is lost. Returns its name and the reason.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> (&Name, LossReason) {
        let (which, cause) = self.any_lost().await;
        (self.guards[which].name(), cause)
    }

    /// Waits until one of the locks is certain for less than `before`, or is lost. Returns its name, and why it is lost
    /// or will be.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn at_risk(&self, before: Duration) -> (&Name, LossReason) {
        let each = self.guards.iter().map(|guard| Box::pin(guard.at_risk(before)));
        let (cause, which, _) = select_all(each).await;
        (self.guards[which].name(), cause)
    }

    /// Runs `work` while all locks are held, and drops `work` when one is lost. See [`Guard::protect`].
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if one of the locks was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if `work` is.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let out = protect(self.any_lost(), || self.all_held(), work).await;
        out.map_err(|(which, cause)| self.guards[which].lost_because(cause))
    }

    /// Renews all locks: keeps them for `ttl` from now. Returns for how long all of them are then certain.
    ///
    /// # Errors
    ///
    /// As [`Guard::renew`], for the first lock that failed. The others are renewed all the same.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the renewals go on.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let renewed = join_all(self.guards.iter().map(|guard| guard.renew(ttl))).await;
        renewed.into_iter().try_fold(Duration::MAX, |least, valid_for| valid_for.map(|v| least.min(v)))
    }

    /// Releases all locks at once and returns whether all were held until then. See [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the releases go on in the background.
    pub async fn release(self) -> Ending {
        let endings = join_all(self.guards.into_iter().map(Guard::release)).await;
        match endings.iter().all(|ending| *ending == Ending::Released) {
            true => Ending::Released,
            false => Ending::Expired,
        }
    }

    /// Marks that the user gets these guards. Guards of only some of the locks are not marked, and are released at
    /// once.
    pub(super) fn handed_over(self) -> MultiGuard {
        MultiGuard { guards: self.guards.into_iter().map(Guard::handed_over).collect() }
    }

    pub(crate) fn first(&self) -> &Guard {
        self.guards.first().expect("a multi-lock has a lock")
    }

    pub(super) async fn any_lost(&self) -> (usize, LossReason) {
        if self.guards.is_empty() {
            return std::future::pending().await;
        }
        let (cause, which, _) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        (which, cause)
    }

    pub(super) fn all_held(&self) -> Result<(), (usize, LossReason)> {
        let mut each = self.guards.iter().enumerate();
        each.try_for_each(|(which, guard)| guard.still_held().map_err(|cause| (which, cause)))
    }
}
