//! The client's knowledge of a granted lock, from the heartbeats.

use std::time::Duration;

use lock_core::Instant;
use lock_core::driver::LossReason;
use lock_core::toolkit::Call;

use super::EtcdClaim;
use crate::session::{Proof, SessionState};
use crate::transactions::{self, KeyMetadata};

impl EtcdClaim {
    /// Notes that something may have changed: only a heartbeat that begins from now on counts.
    pub(super) fn require_new_proof(&mut self) {
        if let (Some(membership), Some(held)) = (&self.membership, &mut self.held) {
            (held.news, held.doubted) = (membership.session().begun(), true);
        }
    }

    pub(super) async fn take_wake_up(&self) -> bool {
        tokio::select! {
            biased;
            () = self.doubt.notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Returns why the key is gone: a revoke leaves a marker key.
    pub(super) async fn why_gone(&self, call: &Call, held: Held) -> LossReason {
        let marker = [self.own.revoke_marker(held.metadata.created)];
        let answer = self.cluster().txn(call, transactions::read(&marker)).await;
        match answer.ok().and_then(|answer| transactions::were_read(&answer, 1).ok()) {
            Some((found, _)) if !found.is_empty() => LossReason::Revoked,
            _ => LossReason::Gone,
        }
    }
}

/// The client's knowledge of a granted lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) metadata: KeyMetadata,
    /// The number of the last heartbeat that began before the latest news of this lock. Its answer may not include that
    /// news.
    pub(super) news: u64,
    /// The news is a possible change, and not the grant.
    pub(super) doubted: bool,
    /// The number of the last proof that was passed on.
    pub(super) told: u64,
}

/// The verdict of a proof about a lock.
pub(super) enum Verdict {
    Held {
        valid_for: Duration,
        age: Duration,
    },
    /// The lock is lost; the cause is given if the proof shows it.
    Lost(Option<LossReason>),
    /// The proof is too old to decide.
    Unknown,
}

impl Held {
    /// Judges the lock by a proof. Validity counts from `start`.
    pub(super) fn judge(&self, proof: &Proof, key: &[u8], start: Instant) -> Verdict {
        if proof.state == SessionState::Ended {
            return Verdict::Lost(Some(LossReason::Session));
        }
        if proof.number > self.news {
            match proof.has.get(key) {
                // A key that was created again is not the place that was granted.
                Some(seen) if seen.created != self.metadata.created => return Verdict::Lost(None),
                Some(seen) if seen.lease != proof.lease.id => {
                    return Verdict::Lost(Some(LossReason::Revoked));
                }
                Some(_) => {}
                None => return Verdict::Lost(None),
            }
        } else if self.doubted {
            return Verdict::Unknown;
        }
        let valid_for = proof.ends().since(start);
        match valid_for > proof.lease.ttl * 2 / 3 {
            true => Verdict::Held { valid_for, age: start.since(proof.asked) },
            false => Verdict::Unknown,
        }
    }
}
