//! Moves of all keys of a session to a fresh lease.

use std::collections::HashMap;

use lock_core::toolkit::Call;

use super::{Beat, Heartbeat};
use crate::cluster::RequestError;
use crate::lease::{Grant, Lease};
use crate::transactions::{self, BATCH, KeyMetadata};

impl Heartbeat {
    /// Moves all keys to a fresh lease, which the leader of an earlier term does not know. The grant and the moves went
    /// through raft: that is a proof.
    pub(super) async fn move_to_fresh_lease(&mut self, number: u64, old: Lease) -> Beat {
        self.stream = None;
        let (cluster, step) = (self.cluster.clone(), self.step());
        let Some(random) = self.sessions.upgrade().map(|sessions| sessions.random.clone()) else {
            return Beat::Over;
        };
        let asked = cluster.clock.now();
        let grant = Grant::new(&random, self.session.seconds, asked);
        let Ok(fresh) = grant.ask(&cluster, &Call::begin(&cluster.clock, step)).await else {
            return Beat::Unknown;
        };
        self.session.switch(fresh);
        let Ok(moved) = self.move_stragglers(fresh).await else { return Beat::Unknown };
        // Defeats requests under the old lease that are still on their way, and a former leader that knows only the old
        // lease. If it cannot be revoked now, it ends by itself.
        cluster.revoke(&Call::begin(&cluster.clock, step), old.id).await.ok();
        self.record_proof(number, asked, fresh, moved)
    }

    /// Moves all keys that are on another lease to `lease`. Returns how each of them stands now.
    pub(super) async fn move_stragglers(
        &self,
        lease: Lease,
    ) -> Result<HashMap<Vec<u8>, KeyMetadata>, RequestError> {
        let mut found = HashMap::new();
        for batch in self.session.stragglers().chunks(BATCH) {
            let call = &Call::begin(&self.cluster.clock, self.step());
            let answer = self.cluster.txn(call, transactions::move_to(lease.id, batch)).await?;
            let moved = transactions::moved(&answer, lease.id, batch).map_err(RequestError::Other)?;
            for ((key, before), now) in batch.iter().zip(moved) {
                self.session.update_straggler(key, *before, now);
                found.extend(now.map(|now| (key.clone(), now)));
            }
        }
        Ok(found)
    }
}
