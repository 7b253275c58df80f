//! A claim's end: its key goes, and what may yet take effect is kept from it.

use lock_core::Result;
use lock_core::driver::{Call, Release};

use super::EtcdClaim;
use crate::answers::{Place, Window};
use crate::cluster::Trouble;
use crate::transactions;

impl EtcdClaim {
    pub(super) async fn give_back(&mut self, call: &Call) -> Result<Release> {
        let mut rest = None;
        let mut leases = self.uncertain.clone();
        // Each of these makes certain of one lease, and gives the key back as well.
        while let Some(lease) = leases.pop() {
            match self.cluster().txn(call, transactions::bury(&self.own, lease)).await {
                Ok(answer) => rest = transactions::released(&answer)?.or(rest),
                // No attempt can take effect under a lease that has ended.
                Err(Trouble::NoLease) => rest = self.delete(call).await?.or(rest),
                Err(trouble) => return Err(trouble.into()),
            }
            self.uncertain = leases.clone();
        }
        if self.place.is_some() {
            rest = match rest {
                None => self.delete(call).await?,
                some => some,
            };
        }
        self.has_no_place();
        (self.watching, self.before, self.lost) = (None, None, None);
        Ok(match rest {
            Some(rest) => Release::Released { others: self.others(&rest) },
            None => Release::NotHeld,
        })
    }

    /// Deletes the own key. Who is left, if it was there.
    async fn delete(&self, call: &Call) -> Result<Option<Window>> {
        let answer = self.cluster().txn(call, transactions::release(&self.own)).await?;
        transactions::released(&answer)
    }

    /// Whether somebody waits elsewhere.
    fn others(&self, rest: &Window) -> Option<bool> {
        let (queue, shared) = (&self.own.queue, &self.shared);
        // One that was revoked is nobody's here, though its key is ours.
        let is_ours =
            |place: &Place| shared.layout.is_ours(queue, &place.key) && shared.has_lease(place.lease);
        let is_other = |place: &&Place| queue.has(&place.key) && !is_ours(place);
        match rest.places.iter().find(is_other) {
            Some(_) => Some(true),
            None => (!rest.more).then_some(false),
        }
    }
}
