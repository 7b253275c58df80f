//! The end of a claim: it deletes its key, and defeats attempts that are still in flight.

use etcd_client::Txn;
use lock_core::driver::Release;
use lock_core::toolkit::Call;
use lock_core::{Error, Result};

use super::EtcdClaim;
use crate::answers::{StoredKey, Window};
use crate::cluster::RequestError;
use crate::transactions;

impl EtcdClaim {
    pub(super) async fn give_back(&mut self, call: &Call) -> Result<Release> {
        let mut rest = None;
        let mut leases = self.uncertain.clone();
        // Each pass defeats the attempts under one lease, and also deletes the key.
        while let Some(lease) = leases.pop() {
            match self.cluster().txn(call, transactions::release_with_tombstone(&self.own, lease)).await {
                Ok(answer) => rest = transactions::released(&answer)?.or(rest),
                // An attempt under an ended lease cannot take effect.
                Err(RequestError::NoLease) => {
                    rest = self.delete(call, transactions::release(&self.own)).await?.or(rest);
                }
                Err(error) => return Err(error.into()),
            }
            self.uncertain = leases.clone();
        }
        if let Some(place) = self.place {
            rest = match rest {
                None => self.delete(call, transactions::give_back(&self.own, place.created)).await?,
                some => some,
            };
        }
        self.forget_place();
        (self.watching, self.before, self.lost) = (None, None, None);
        Ok(match rest {
            Some(rest) => Release::Released { others: self.others(&rest) },
            None => Release::NotHeld,
        })
    }

    /// Handles a release that the server refuses. The key then stays until its lease ends, and other clients wait
    /// behind it. If the server refuses for a whole ttl, the session is ended.
    pub(super) fn handle_refused_release(&mut self, call: &Call, refused: Error) -> Result<Release> {
        let Some(membership) = &self.membership else { return Err(refused) };
        self.shared.stop_joining(membership.session());
        let since = *self.refused_since.get_or_insert(call.began());
        if call.clock().now().since(since) < self.request.ttl {
            return Err(refused);
        }
        self.shared.end(membership.session());
        self.forget_place();
        self.uncertain.clear();
        Ok(Release::NotHeld)
    }

    /// Deletes the claim's own key. Returns the places that are left, or `None` if the key did not exist.
    async fn delete(&self, call: &Call, txn: Txn) -> Result<Option<Window>> {
        let answer = self.cluster().txn(call, txn).await?;
        transactions::released(&answer)
    }

    /// Returns `Some(true)` if another client waits. A foreign client may wait unseen, so the answer is never
    /// `Some(false)`.
    fn others(&self, rest: &Window) -> Option<bool> {
        let (layout, leases) = (&self.shared.layout, self.shared.leases());
        // A revoked place has our key, but no claim of this client owns it.
        let is_ours =
            |place: &StoredKey| layout.is_ours(&self.own.queue, &place.key) && leases.contains(&place.lease);
        rest.keys.iter().any(|place| !is_ours(place)).then_some(true)
    }
}
