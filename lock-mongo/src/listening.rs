//! A claim's subscription: to releases of the lock that it waits for, or to the revoke of the lock that it
//! holds.

use lock_core::toolkit::{QueuePosition, Subscription};

/// The subscriptions of a claim.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    subscription: Option<Subscription>,
    /// It was woken since its last attempt.
    was_woken: bool,
    /// The number of releases that it heard before the grant.
    heard: u32,
}

impl Listening {
    pub(crate) fn is_on(&self) -> bool {
        self.subscription.is_some()
    }

    pub(crate) fn to(&mut self, subscription: Subscription) {
        self.subscription = Some(subscription);
    }

    /// Waits for a wake-up. Never returns for a claim that does not listen.
    pub(crate) async fn woken(&mut self) {
        match &self.subscription {
            Some(subscription) => subscription.woken().await,
            None => std::future::pending().await,
        }
        self.was_woken = true;
    }

    /// Returns how many quarters of the waiters of all clients have waited for longer, if a release has woken this one
    /// since its last attempt. An attempt for another reason asks at once: a look must not hide a free lock for ever.
    pub(crate) fn quarters_in_front(&mut self) -> u32 {
        let woken = self.subscription.as_ref().filter(|_| std::mem::take(&mut self.was_woken));
        woken.and_then(Subscription::standing).map_or(0, QueuePosition::quarters_in_front)
    }

    /// Ends at the grant: a holder that listens would take a wake-up that a waiter of this process needs.
    pub(crate) fn granted(&mut self) {
        if let Some(subscription) = self.subscription.take() {
            self.heard = subscription.heard();
        }
    }

    /// Returns how many releases this claim heard before the grant.
    pub(crate) fn heard(&self) -> u32 {
        self.heard
    }
}
