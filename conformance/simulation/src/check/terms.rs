//! Checks how long a lock is held against its terms.

use super::{Call, Checker, Invariant};
use crate::clocks::at_most;
use crate::ids::CallId;
use crate::log::Claim;
use crate::timeline::micros;

impl Checker {
    /// A guard says that it is held: checks that this is not after `max_hold`, nor after one ttl if the lease is not
    /// renewed.
    pub(super) fn holds_on_its_terms(&mut self, call: CallId) {
        let Call { terms: Some(terms), granted: Some(granted), by_hand, .. } = self.calls[call] else {
            return;
        };
        let lease = (terms.fixed && !by_hand).then_some(terms.ttl);
        let Some(most) = [terms.max_hold, lease].into_iter().flatten().min() else { return };
        self.could(Invariant::Terms);
        if self.at - granted > at_most(micros(most)) {
            self.broken(Invariant::Terms, [call], format!("held for longer than {most:?}"));
        }
    }

    /// A lost lock is given up at once, whatever its `min_hold`: no client keeps it alive any more.
    pub(super) fn claim_lost(&mut self, Claim { client, lock }: Claim) {
        // A claim may be lost as soon as it is granted, before the log shows its caller's grant.
        let here = |call: &&mut Call| call.client == client && call.lock == lock;
        self.calls.iter_mut().filter(here).for_each(|call| call.lost = true);
    }

    /// A release has ended its hold: checks that a lock that was granted, and was not lost, was kept for `min_hold`.
    pub(super) fn is_held_long_enough(&mut self, call: CallId) {
        let Call { terms: Some(terms), granted: Some(granted), asked, .. } = self.calls[call] else { return };
        let Some(least) = terms.min_hold.filter(|least| granted - asked < micros(*least)) else { return };
        if self.calls[call].lost || self.killed.contains(&self.calls[call].client) {
            return;
        }
        self.could(Invariant::Terms);
        if at_most(self.at - asked) < micros(least) {
            self.broken(Invariant::Terms, [call], format!("released before {least:?}"));
        }
    }
}
