//! Several locks as one: all or none, in one order, with one guard.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::clock::Instant;
use crate::ending::{Ending, LossReason};
use crate::error::{Error, Result};
use crate::guard::{Guard, protect};
use crate::lock::Lock;
use crate::name::Name;

/// Several locks, of one client or of many, that are taken together or not at all.
///
/// All clients take them in the same order, by backend, name and server. Therefore two callers that want the same locks
/// never wait for each other.
///
/// ```
/// # async fn example(client: lock_core::Client) -> lock_core::Result<()> {
/// let from = client.lock("account/17").build()?;
/// let to = client.lock("account/4").build()?;
/// let both = lock_core::MultiLock::new([from, to])?;
/// both.run(async |_guard| { /* move the money */ }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl MultiLock {
    /// Makes a multi-lock of all `locks`, each on its own terms.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is no lock, or if one lock is in the list twice. The latter is
    /// also found through two clients, where the server says which it is ([`Info::identity`](crate::Info)).
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Result<MultiLock> {
        let mut locks: Vec<Lock> = locks.into_iter().collect();
        locks.sort_by(canonical);
        if locks.is_empty() {
            return Err(Error::invalid("a multi-lock needs at least one lock"));
        }
        let (mut places, mut anywhere) = (HashSet::new(), HashSet::new());
        if let Some(twice) = locks.iter().find(|lock| {
            // Another client may be connected to the same server.
            let elsewhere = lock.info().place(lock.name()).is_some_and(|place| !anywhere.insert(place));
            !places.insert(lock.place()) || elsewhere
        }) {
            let name = twice.name();
            return Err(Error::invalid(format!(
                "the lock {name:?} is in the list twice: it would wait for itself"
            )));
        }
        Ok(MultiLock { locks, wait: None })
    }

    /// Sets how long [`acquire`](Self::acquire) waits for all locks together. By default it waits without a limit.
    ///
    /// The wait of each lock counts as well.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits until all locks are held.
    ///
    /// If one lock is lost while the others are waited for, the call begins anew after a pause, which grows to a
    /// second.
    ///
    /// # Errors
    ///
    /// - As [`Lock::acquire`], for the first lock that could not be acquired.
    /// - [`Lost`](crate::ErrorKind::Lost), naming the lock, if one was lost while the others were waited for and the
    ///   wait for all of them is over.
    ///
    /// The locks that were taken before the error are released in the background.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the locks that were taken are released in the background.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let ends = self.wait.map(|wait| self.now() + wait);
        let mut losses = 0;
        loop {
            match self.acquire_each(ends).await? {
                Ok(guard) => return Ok(guard.handed_over()),
                Err(lost) => {
                    losses += 1;
                    self.let_others_pass(losses, lost, ends).await?;
                }
            }
        }
    }

    /// Takes all locks if all are free. Returns `None`, and keeps none, if another owner holds one of them.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`], for the first lock that failed.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut all = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            match lock.try_acquire_in_part().await? {
                Some(guard) => all.guards.push(guard),
                None => return Ok(None),
            }
        }
        // If one was lost in the meantime, another owner holds it or may hold it.
        Ok(all.is_held().then(|| all.handed_over()))
    }

    /// Acquires all locks, runs `work` while they are held, and releases them.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Lost`](crate::ErrorKind::Lost) if one of the locks was lost before `work` was
    /// done; `work` is then dropped.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, `work` is dropped with it, and the locks are released in the background.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        let out = guard.protect(work(&guard)).await;
        // The locks were held while the work was done, even if one was lost while the releases were on their way.
        let _: Ending = guard.release().await;
        out
    }

    /// Acquires the locks one after the other. Returns the loss if one is lost before the last one is granted.
    async fn acquire_each(&self, ends: Option<Instant>) -> Result<Result<MultiGuard, Error>> {
        let mut all = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            let lock = match ends {
                Some(ends) => lock.waiting_at_most(ends.since(self.now())),
                None => lock.clone(),
            };
            match protect(all.any_lost(), || all.all_held(), lock.acquire_in_part()).await {
                Ok(granted) => all.guards.push(granted?),
                Err((which, cause)) => return Ok(Err(all.guards[which].lost_because(cause))),
            }
        }
        Ok(Ok(all))
    }

    /// Pauses after so many losses, so that servers which lose locks are not asked all the time. Returns `lost` if the
    /// wait is over.
    async fn let_others_pass(&self, losses: u32, lost: Error, ends: Option<Instant>) -> Result<()> {
        let first = self.first();
        let again = self.now() + first.pause_after_error(losses);
        let until = ends.map_or(again, |ends| again.min(ends));
        first.home().within(pin!(first.clock().sleep_until(until))).await;
        match ends {
            Some(ends) if ends <= self.now() => Err(lost),
            _ => Ok(()),
        }
    }

    fn now(&self) -> Instant {
        self.first().clock().now()
    }

    pub(crate) fn first(&self) -> &Lock {
        self.locks.first().expect("a multi-lock has a lock")
    }
}

/// The order in which all clients take locks. The server comes last, because clients may know it by different
/// addresses.
fn canonical(a: &Lock, b: &Lock) -> Ordering {
    let (a_info, b_info) = (a.info(), b.info());
    (a_info.backend, a.name(), &a_info.server).cmp(&(b_info.backend, b.name(), &b_info.server))
}

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
    guards: Vec<Guard>,
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
    fn handed_over(self) -> MultiGuard {
        MultiGuard { guards: self.guards.into_iter().map(Guard::handed_over).collect() }
    }

    pub(crate) fn first(&self) -> &Guard {
        self.guards.first().expect("a multi-lock has a lock")
    }

    async fn any_lost(&self) -> (usize, LossReason) {
        if self.guards.is_empty() {
            return std::future::pending().await;
        }
        let (cause, which, _) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        (which, cause)
    }

    fn all_held(&self) -> Result<(), (usize, LossReason)> {
        let mut each = self.guards.iter().enumerate();
        each.try_for_each(|(which, guard)| guard.still_held().map_err(|cause| (which, cause)))
    }
}
