//! A claim's end: its key goes, and what may yet take effect is kept from it.

use etcd_client::Txn;
use lock_core::driver::{Call, Release};
use lock_core::{Error, Result};

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
                Err(Trouble::NoLease) => {
                    rest = self.delete(call, transactions::release(&self.own)).await?.or(rest);
                }
                Err(trouble) => return Err(trouble.into()),
            }
            self.uncertain = leases.clone();
        }
        if let Some(place) = self.place {
            rest = match rest {
                None => self.delete(call, transactions::give_back(&self.own, place.created)).await?,
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

    /// The server won't delete the key. It goes with its lease and not before, and others wait behind it: if that lasts for a
    /// whole ttl, the session ends.
    pub(super) fn is_refused(&mut self, call: &Call, refused: Error) -> Result<Release> {
        let Some(seat) = &self.seat else { return Err(refused) };
        self.shared.fills_up(&seat.session);
        let since = *self.refused_since.get_or_insert(call.began());
        if call.clock().now().since(since) < self.request.ttl {
            return Err(refused);
        }
        self.shared.end(&seat.session);
        self.has_no_place();
        self.uncertain.clear();
        Ok(Release::NotHeld)
    }

    /// Deletes the own key. Who is left, if it was there.
    async fn delete(&self, call: &Call, txn: Txn) -> Result<Option<Window>> {
        let answer = self.cluster().txn(call, txn).await?;
        transactions::released(&answer)
    }

    /// Whether another client waits. A foreign one may, unseen.
    fn others(&self, rest: &Window) -> Option<bool> {
        let (queue, shared) = (&self.own.queue, &self.shared);
        // One that was revoked is nobody's here, though its key is ours.
        let is_ours =
            |place: &Place| shared.layout.is_ours(queue, &place.key) && shared.has_lease(place.lease);
        rest.places.iter().any(|place| !is_ours(place)).then_some(true)
    }
}
