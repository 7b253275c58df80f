//! Several locks as one: all or none, in one order, with one guard.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::clock::Instant;
use crate::driver::Cause;
use crate::error::{Error, Result};
use crate::guard::{Ending, Guard, protect};
use crate::lock::Lock;
use crate::name::Name;

/// Several locks, of one client or of many, that are taken together or not at all.
///
/// Everybody takes them in the same order, by backend, name and server, so that two who want the same locks never wait
/// for each other.
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
    /// All of `locks`, on the terms of each. `Invalid` if there is none, or one of them twice: also through two clients,
    /// where the server says which it is ([`Info::identity`](crate::Info)).
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Result<MultiLock> {
        let mut locks: Vec<Lock> = locks.into_iter().collect();
        locks.sort_by(canonical);
        if locks.is_empty() {
            return Err(Error::invalid("a multi-lock needs at least one lock"));
        }
        let (mut places, mut anywhere) = (HashSet::new(), HashSet::new());
        if let Some(twice) = locks.iter().find(|lock| {
            // Another client may be of the same server.
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

    /// How long [`acquire`](Self::acquire) waits for all of them together: without end by default. The wait of each
    /// lock counts as well.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits until it has all of them.
    ///
    /// Errors as [`Lock::acquire`], for the first lock that could not be had; what was taken until then is given back
    /// in the background, as it is when this future is dropped. If one is lost while the others are waited for, it
    /// begins anew after a moment, which grows to a second; `Lost`, naming that lock, if the wait of all of them is over
    /// then. Cancel safe.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let ends = self.wait.map(|wait| self.now() + wait);
        let mut losses = 0;
        loop {
            match self.acquire_each(ends).await? {
                Ok(guard) => return Ok(guard.handed_over()),
                Err(lost) => {
                    losses += 1;
                    self.stand_back(losses, lost, ends).await?;
                }
            }
        }
    }

    /// Takes all of them if all are free; `None`, and nothing is kept, if somebody else holds one. Cancel safe.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut all = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            match lock.try_acquire_in_part().await? {
                Some(guard) => all.guards.push(guard),
                None => return Ok(None),
            }
        }
        // One that was lost meanwhile was somebody else's, or may be.
        Ok(all.is_held().then(|| all.handed_over()))
    }

    /// Acquires all, runs `work` under their protection, and releases them.
    ///
    /// Errors as [`acquire`](Self::acquire); `Lost` if one of them was lost before `work` was done, which is then
    /// dropped.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        let out = guard.protect(work(&guard)).await;
        // What was lost while the releases were on their way was held while the work was done.
        let _: Ending = guard.release().await;
        out
    }

    /// One after the other; which one was lost if that was before the last was granted.
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

    /// A pause after so many losses, that servers which lose locks are not asked without end; `lost` if the wait is over.
    async fn stand_back(&self, losses: u32, lost: Error, ends: Option<Instant>) -> Result<()> {
        let first = self.first();
        let again = self.now() + first.pause_after_error(losses);
        let until = ends.map_or(again, |ends| again.min(ends));
        first.keeper().within(pin!(first.clock().sleep_until(until))).await;
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

/// The order in which everybody takes locks. The server comes last: not everybody calls it by the same name.
fn canonical(a: &Lock, b: &Lock) -> Ordering {
    let (a_info, b_info) = (a.info(), b.info());
    (a_info.backend, a.name(), &a_info.server).cmp(&(b_info.backend, b.name(), &b_info.server))
}

/// Several held locks. Lost when one of them is lost; dropped, it releases them all in the background.
///
/// One that is not kept is warned of, as a [`Guard`] is:
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
    /// The guard of each lock, in the order in which they were taken: each has a token of its own.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Whether all of them are certainly held, now.
    pub fn is_held(&self) -> bool {
        self.all_held().is_ok()
    }

    /// For how long all of them are certainly held if no renewal succeeds; zero once one is lost.
    pub fn valid_for(&self) -> Duration {
        self.guards.iter().map(Guard::valid_for).min().unwrap_or_default()
    }

    /// [`Lost`](crate::ErrorKind::Lost), naming the lock and the reason, unless all of them are certainly held.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Resolves when one of them is lost: which, and why. Cancel safe.
    pub async fn lost(&self) -> (&Name, Cause) {
        let (which, cause) = self.any_lost().await;
        (self.guards[which].name(), cause)
    }

    /// Resolves when less than `before` is left of what is certain of one of them, or one is lost: which, and why it is
    /// lost, or will be. Cancel safe.
    pub async fn at_risk(&self, before: Duration) -> (&Name, Cause) {
        let each = self.guards.iter().map(|guard| Box::pin(guard.at_risk(before)));
        let (cause, which, _) = select_all(each).await;
        (self.guards[which].name(), cause)
    }

    /// Runs `work` while all of them are held; drops it and answers [`Lost`](crate::ErrorKind::Lost) when one is lost.
    /// As [`Guard::protect`].
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let out = protect(self.any_lost(), || self.all_held(), work).await;
        out.map_err(|(which, cause)| self.guards[which].lost_because(cause))
    }

    /// Keeps all of them for `ttl` more from now; answers for how long all are then certain. Errors as
    /// [`Guard::renew`], for the first that failed; the others are renewed all the same.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let renewed = join_all(self.guards.iter().map(|guard| guard.renew(ttl))).await;
        renewed.into_iter().try_fold(Duration::MAX, |least, valid_for| valid_for.map(|v| least.min(v)))
    }

    /// Releases them, all at once, and says whether all of them were held until then. As [`Guard::release`].
    pub async fn release(self) -> Ending {
        let endings = join_all(self.guards.into_iter().map(Guard::release)).await;
        match endings.iter().all(|ending| *ending == Ending::Released) {
            true => Ending::Released,
            false => Ending::Expired,
        }
    }

    /// On its way to the user. Guards of a part of the locks go without that, and leave nothing.
    fn handed_over(self) -> MultiGuard {
        MultiGuard { guards: self.guards.into_iter().map(Guard::handed_over).collect() }
    }

    pub(crate) fn first(&self) -> &Guard {
        self.guards.first().expect("a multi-lock has a lock")
    }

    async fn any_lost(&self) -> (usize, Cause) {
        if self.guards.is_empty() {
            return std::future::pending().await;
        }
        let (cause, which, _) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        (which, cause)
    }

    fn all_held(&self) -> Result<(), (usize, Cause)> {
        let mut each = self.guards.iter().enumerate();
        each.try_for_each(|(which, guard)| guard.still_held().map_err(|cause| (which, cause)))
    }
}
