//! A claim's subscription: to releases of the lock that it waits for, or to the revoke of the lock that it
//! holds.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hub::{Bell, Hub, QueuePosition};
use super::watchers::Watchers;
use crate::name::Name;
use crate::owner::Owner;

/// A claim that listens. It stops when this value is dropped.
#[must_use = "listening stops when this value is dropped: keep it"]
#[derive(Debug)]
pub struct Subscription(Listener);

#[derive(Debug)]
enum Listener {
    Waiter {
        hub: Hub,
        name: Name,
        bell: Arc<Bell>,
        /// The number of times that the bell had rung when this began.
        since: u32,
    },
    Holder {
        watchers: Watchers,
        owner: Owner,
    },
}

impl Subscription {
    /// Waits for the next wake-up; returns at once if one came since the last call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn woken(&self) {
        match &self.0 {
            Listener::Waiter { bell, .. } => bell.notify.notified().await,
            Listener::Holder { watchers, owner } => {
                poll_fn(|context| watchers.poll_woken(*owner, context)).await;
            }
        }
    }

    /// Returns how many releases were announced since the claim began to listen.
    pub fn heard(&self) -> u32 {
        match &self.0 {
            Listener::Waiter { bell, since, .. } => bell.rung.load(Ordering::Relaxed).wrapping_sub(*since),
            Listener::Holder { .. } => 0,
        }
    }

    /// Returns where the claim stands among the waiters of all clients; `None` if the last wake-up did not tell how many
    /// there are.
    pub fn standing(&self) -> Option<QueuePosition> {
        let Listener::Waiter { bell, .. } = &self.0 else { return None };
        match bell.waiters.load(Ordering::Relaxed) {
            0 => None,
            waiters => Some(QueuePosition::new(self.heard(), waiters)),
        }
    }

    /// Makes the subscription of a waiter, which the [`Hub`] knows already.
    pub(super) fn of_waiter(hub: Hub, name: Name, bell: Arc<Bell>) -> Subscription {
        let since = bell.rung.load(Ordering::Relaxed);
        Subscription(Listener::Waiter { hub, name, bell, since })
    }

    /// Makes the subscription of a holder, which the [`Watchers`] know already.
    pub(super) fn of_holder(watchers: Watchers, owner: Owner) -> Subscription {
        Subscription(Listener::Holder { watchers, owner })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.0 {
            Listener::Waiter { hub, name, .. } => hub.leave(name),
            Listener::Holder { watchers, owner } => watchers.leave(*owner),
        }
    }
}
