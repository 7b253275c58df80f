//! Several locks as one: all or none, in one order, with one guard.

mod guard;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Effect, Error, Result};
use crate::guard::protect;
use crate::lock::Lock;

pub use guard::MultiGuard;

/// Several locks, of one client or of many, that are taken together or not at all.
///
/// All clients take them in the same order, by backend, name and server. Therefore two callers that want the same locks
/// never wait for each other.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: lock_core::Client) -> lock_core::Result<()> {
/// let from = client.lock("account/17").build()?;
/// let to = client.lock("account/4").build()?;
/// let both = onelock::MultiLock::new([from, to])?;
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
            !places.insert(lock.hold_key()) || elsewhere
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
                Acquired::All(guard) => return Ok(guard.handed_over()),
                Acquired::OneLost(lost) => {
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
        guard.release().await;
        out
    }

    /// Acquires the locks one after the other.
    async fn acquire_each(&self, ends: Option<Instant>) -> Result<Acquired> {
        let mut all = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
        for lock in &self.locks {
            let lock = match ends {
                Some(ends) => lock.waiting_at_most(ends.since(self.now())),
                None => lock.clone(),
            };
            match protect(all.any_lost(), || all.all_held(), lock.acquire_in_part()).await {
                Ok(granted) => all.guards.push(granted?),
                Err((which, cause)) => return Ok(Acquired::OneLost(all.guards[which].lost_because(cause))),
            }
        }
        Ok(Acquired::All(all))
    }

    /// Pauses after so many losses, so that servers which lose locks are not asked all the time. Returns `lost` if the
    /// wait is over.
    async fn let_others_pass(&self, losses: u32, lost: Error, ends: Option<Instant>) -> Result<()> {
        let first = self.first();
        let again = self.now() + first.pause_after_error(losses);
        let until = ends.map_or(again, |ends| again.min(ends));
        let paused = first.runtime().here(first.clock().sleep_until(until)).await;
        paused.map_err(|why| first.runtime().unanswered(why, Effect::NotApplied))?;
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

/// The result of one pass over all locks.
enum Acquired {
    All(MultiGuard),
    /// One was lost before the last one was granted: the error says which, and why.
    OneLost(Error),
}

/// The order in which all clients take locks. The server comes last, because clients may know it by different
/// addresses.
fn canonical(a: &Lock, b: &Lock) -> Ordering {
    let (a_info, b_info) = (a.info(), b.info());
    (a_info.backend, a.name(), &a_info.server).cmp(&(b_info.backend, b.name(), &b_info.server))
}
