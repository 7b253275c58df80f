//! Wakes claims by name. A backend's one subscription connection feeds it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::subscription::Subscription;
use crate::name::Name;
use crate::owner::Owner;

/// The claims of one client that listen, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    names: Mutex<HashMap<Name, NameListeners>>,
    /// Tells the feed that the set of names may have changed.
    changes: Notify,
}

#[derive(Debug)]
struct NameListeners {
    bell: Arc<Bell>,
    listeners: usize,
}

/// The wake-up of the claims of one name.
#[derive(Debug, Default)]
pub(super) struct Bell {
    pub(super) notify: Notify,
    /// The number of times that it has rung.
    pub(super) rung: AtomicU32,
    /// The number of clients that waited when it rang last, or an estimate; zero if that is not known.
    pub(super) waiters: AtomicU32,
}

impl Bell {
    fn ring(&self, crowd: Crowd) {
        self.rung.fetch_add(1, Ordering::Relaxed);
        let waiters = match crowd {
            Crowd::Unknown => 0,
            Crowd::Counted(waiters) => waiters,
            // A few owners that were lucky must not let the others forget how many wait. Those that have gone are
            // forgotten after some releases.
            Crowd::Heard(releases) => {
                let before = self.waiters.load(Ordering::Relaxed);
                releases.max(before - before.div_ceil(8))
            }
        };
        self.waiters.store(waiters, Ordering::Relaxed);
        self.notify.notify_one();
    }
}

/// The number of waiting clients, as far as a message about a release tells it.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    Unknown,
    /// The number of clients that wait.
    Counted(u32),
    /// The number of releases that the last owner heard while it waited: in the order in which clients came, as many
    /// waited.
    Heard(u32),
}

/// A waiter's queue position among the waiters of all clients, on a server that keeps no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePosition {
    /// The number of releases that were announced since the waiter began to listen. Each of them served a
    /// waiter; in the order in which they came, it would be the turn of this one when it is as high as
    /// `waiters`.
    pub heard: u32,
    /// The number of clients that waited at the last of them, exact or estimated.
    pub waiters: u32,
}

impl QueuePosition {
    /// Says that so many releases were heard, and that so many clients waited at the last of them.
    pub fn new(heard: u32, waiters: u32) -> QueuePosition {
        QueuePosition { heard, waiters }
    }

    /// Returns which part of all waiters has waited for longer, in whole quarters. Of two that listen, the
    /// holder may be one.
    pub fn quarters_in_front(self) -> u32 {
        match self.waiters {
            0..=2 => 0,
            waiters => u32::try_from(u64::from(waiters.saturating_sub(self.heard)) * 4 / u64::from(waiters))
                .unwrap_or(0),
        }
    }
}

impl Hub {
    /// Starts to listen to `name`. A wake-up that comes before [`Subscription::woken`] is called is kept.
    pub fn listen(&self, name: &Name) -> Subscription {
        let mut names = self.names();
        let slot = names.entry(name.clone()).or_insert_with(|| {
            self.0.changes.notify_one();
            NameListeners { bell: Arc::default(), listeners: 0 }
        });
        slot.listeners += 1;
        let bell = slot.bell.clone();
        Subscription::of_waiter(self.clone(), name.clone(), bell)
    }

    /// Wakes one of the claims that listen to `name`. One is enough: of all claims of a client, one at a time contends
    /// for a name.
    pub fn wake(&self, name: &str) {
        self.ring(name, Crowd::Unknown);
    }

    /// Wakes a claim that listens to `name`, after a release at which so many clients waited.
    pub fn wake_among(&self, name: &str, waiters: u32) {
        self.ring(name, Crowd::Counted(waiters));
    }

    /// Wakes a claim that listens to `name`, after a release by an owner that had heard so many releases
    /// while it waited. On a server that does not know how many clients wait, this is an estimate of their
    /// number.
    pub fn wake_after(&self, name: &str, heard: u32) {
        self.ring(name, Crowd::Heard(heard));
    }

    /// Wakes one claim for every name, as after a gap in the feed.
    pub fn wake_all(&self) {
        self.listened().iter().for_each(|name| self.wake(name.as_str()));
    }

    /// Returns whether no claim listens to any name.
    pub fn is_empty(&self) -> bool {
        self.names().is_empty()
    }

    /// Returns whether a claim listens to `name`.
    pub fn has(&self, name: &str) -> bool {
        self.names().contains_key(name)
    }

    /// Returns the names that claims listen to. They are sorted, so that the same seed makes the same trace.
    pub fn listened(&self) -> Vec<Name> {
        let mut listened: Vec<Name> = self.names().keys().cloned().collect();
        listened.sort_unstable();
        listened
    }

    /// Waits until a name has been added or removed since the last call. For one feed only.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&self) {
        self.0.changes.notified().await;
    }

    /// Ends a subscription.
    pub(super) fn leave(&self, name: &Name) {
        let mut names = self.names();
        if let Some(slot) = names.get_mut(name) {
            slot.listeners -= 1;
            if slot.listeners == 0 {
                names.remove(name);
                self.0.changes.notify_one();
            } else {
                // A wake-up that was meant for the leaving claim would be lost for the others.
                slot.bell.notify.notify_one();
            }
        }
    }

    fn ring(&self, name: &str, crowd: Crowd) {
        if let Some(slot) = self.names().get(name) {
            slot.bell.ring(crowd);
        }
    }

    fn names(&self) -> std::sync::MutexGuard<'_, HashMap<Name, NameListeners>> {
        // Nothing that can panic runs under this lock, so the map is complete even if the lock is poisoned.
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    /// Returns the name under which a [`Hub`] knows a claim that listens to its own lock, and not to a
    /// name.
    pub fn to_name(self) -> Name {
        Name::new(self.to_string()).expect("32 hex digits are a name")
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_woken(listening: &Subscription) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(listening.woken()).as_mut().poll(&mut context), Poll::Ready(()))
    }

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    #[test]
    fn a_notification_is_kept_until_a_listener_waits() {
        let hub = Hub::default();
        let (a, b) = (hub.listen(&name("a")), hub.listen(&name("b")));
        hub.wake("a");
        hub.wake("a");
        assert!(is_woken(&a) && !is_woken(&a) && !is_woken(&b));
        hub.wake_all();
        assert!(is_woken(&a) && is_woken(&b));
    }

    #[test]
    fn those_that_came_first_go_first() {
        let front = |heard, waiters| QueuePosition::new(heard, waiters).quarters_in_front();
        assert_eq!([1, 2, 4, 6, 7, 8, 90].map(|heard| front(heard, 8)), [3, 3, 2, 1, 0, 0, 0]);
        assert_eq!((front(1, 2), front(1, 3), front(0, u32::MAX)), (0, 2, 4));
    }

    #[test]
    fn a_claim_estimates_waiters_from_earlier_owners() {
        let (hub, name) = (Hub::default(), name("a"));
        let listening = hub.listen(&name);
        assert_eq!((listening.heard(), listening.standing()), (0, None));
        let after = |heard| {
            hub.wake_after("a", heard);
            listening.standing().map(|standing| (standing.heard, standing.waiters))
        };
        assert_eq!((after(0), listening.heard()), (None, 1), "no owner had to wait");
        assert_eq!(after(8), Some((2, 8)));
        assert_eq!([after(0), after(1)], [Some((3, 7)), Some((4, 6))], "a lucky owner");
        assert_eq!(after(40), Some((5, 40)));
        hub.wake("a");
        assert_eq!((listening.standing(), listening.heard()), (None, 6), "after a gap in the feed");
    }

    #[test]
    fn one_listener_is_woken_and_a_leaver_passes_on() {
        let hub = Hub::default();
        let (first, second) = (hub.listen(&name("a")), hub.listen(&name("a")));
        hub.wake("a");
        drop(first);
        assert!(is_woken(&second));
        assert!(hub.has("a") && hub.listened() == [name("a")]);
        drop(second);
        assert!(
            !hub.has("a") && hub.listened().is_empty(),
            "nothing is kept of names that no claim listens to"
        );
    }
}
