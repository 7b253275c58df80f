//! Wakes holders by owner, when their locks are revoked. A backend's one subscription connection feeds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::subscription::Subscription;
use crate::owner::Owner;

/// The claims of one client that hold a lock and watch for its revoke. Cheap to clone.
///
/// A client may hold many locks: a holder takes less memory here than a waiter does in a [`Hub`](super::Hub).
#[derive(Clone, Debug, Default)]
pub struct Watchers(Arc<Mutex<HashMap<Owner, Watcher>>>);

/// The state of one watching owner.
#[derive(Debug, Default)]
struct Watcher {
    /// A claim that begins to watch anew has two subscriptions for a moment.
    subscriptions: u32,
    /// A wake-up has come that was not waited for yet.
    is_told: bool,
    waits: Option<Waker>,
}

impl Watchers {
    /// Starts to watch for the revoke of what this owner holds. A wake-up that comes before [`Subscription::woken`] is
    /// called is kept.
    pub fn watch(&self, owner: Owner) -> Subscription {
        self.owners().entry(owner).or_default().subscriptions += 1;
        Subscription::of_holder(self.clone(), owner)
    }

    /// Wakes the claim of this owner, if it watches.
    pub fn wake(&self, owner: Owner) {
        let waits = self.owners().get_mut(&owner).and_then(Watcher::notify);
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// Wakes all claims, as after a gap in the feed. In the order of their owners, so that the same seed makes the same
    /// trace.
    pub fn wake_all(&self) {
        let mut waits: Vec<(Owner, Waker)> = self
            .owners()
            .iter_mut()
            .filter_map(|(owner, watcher)| Some((*owner, watcher.notify()?)))
            .collect();
        waits.sort_unstable_by_key(|(owner, _)| *owner);
        waits.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Returns whether no claim watches.
    pub fn is_empty(&self) -> bool {
        self.owners().is_empty()
    }

    /// Is ready at the next wake-up, or at once if one came since the last time that it was ready.
    pub(super) fn poll_woken(&self, owner: Owner, context: &mut Context<'_>) -> Poll<()> {
        let mut owners = self.owners();
        let Some(watcher) = owners.get_mut(&owner) else { return Poll::Pending };
        if std::mem::take(&mut watcher.is_told) {
            return Poll::Ready(());
        }
        if !watcher.waits.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            let before = watcher.waits.replace(context.waker().clone());
            // Not under the lock: a waker that is dropped may end a task, and so a subscription.
            drop(owners);
            drop(before);
        }
        Poll::Pending
    }

    /// Ends a subscription.
    pub(super) fn leave(&self, owner: Owner) {
        let mut owners = self.owners();
        let Some(watcher) = owners.get_mut(&owner) else { return };
        watcher.subscriptions -= 1;
        if watcher.subscriptions == 0 {
            let gone = owners.remove(&owner);
            drop(owners);
            drop(gone);
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Owner, Watcher>> {
        // Nothing that can panic runs under this lock, so the map is complete even if the lock is poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// Keeps a wake-up, and returns the task that waits for it.
    fn notify(&mut self) -> Option<Waker> {
        self.is_told = true;
        self.waits.take()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::random::Random;
    use crate::wakes::Wakes;

    fn is_woken(watching: &Subscription) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(watching.woken()).as_mut().poll(&mut context).is_ready()
    }

    fn owner() -> Owner {
        Owner::mint(&Random::system())
    }

    #[test]
    fn a_revoke_wakes_its_owner_once_and_no_other() {
        let (watchers, revoked) = (Watchers::default(), owner());
        let (a, b) = (watchers.watch(revoked), watchers.watch(owner()));
        watchers.wake(revoked);
        watchers.wake(revoked);
        watchers.wake(owner());
        assert!(is_woken(&a) && !is_woken(&a) && !is_woken(&b));
        watchers.wake_all();
        assert!(is_woken(&a) && is_woken(&b));
        assert_eq!((a.heard(), a.standing()), (0, None));
    }

    #[tokio::test]
    async fn a_task_that_waits_is_woken() {
        let (watchers, owner) = (Watchers::default(), owner());
        for wake in [Watchers::wake_all, |watchers: &Watchers| {
            let owners: Vec<Owner> = watchers.owners().keys().copied().collect();
            owners.into_iter().for_each(|owner| watchers.wake(owner));
        }] {
            let watching = watchers.watch(owner);
            let task = tokio::spawn(async move { watching.woken().await });
            tokio::task::yield_now().await;
            wake(&watchers);
            task.await.unwrap();
        }
    }

    #[test]
    fn a_revoke_wakes_the_task_that_has_polled_last() {
        let (watchers, owner) = (Watchers::default(), owner());
        let watching = watchers.watch(owner);
        let mut woken = pin!(watching.woken());
        let wakes: [Arc<Wakes>; 3] = Default::default();
        for polls in &wakes {
            polls.poll(|context| woken.as_mut().poll(context));
        }
        watchers.wake(owner);
        assert_eq!(wakes.each_ref().map(|polls| polls.count()), [0, 0, 1]);
    }

    #[test]
    fn a_claim_that_watches_anew_is_still_woken() {
        let (watchers, owner) = (Watchers::default(), owner());
        let first = watchers.watch(owner);
        let second = watchers.watch(owner);
        drop(first);
        watchers.wake(owner);
        assert!(is_woken(&second) && !watchers.is_empty());
        drop(second);
        assert!(watchers.is_empty(), "nothing is kept of owners whose claims do not watch");
    }
}
