//! What is known of a lock that was granted: what heartbeats have shown of its key.

use std::time::Duration;

use lock_core::Instant;
use lock_core::driver::{Call, Cause};

use super::EtcdClaim;
use crate::session::{Proof, Standings};
use crate::transactions::{self, Standing};

impl EtcdClaim {
    /// What is known so far is not enough any more.
    pub(super) fn doubts(&mut self) {
        if let (Some(seat), Some(held)) = (&self.seat, &mut self.held) {
            (held.news, held.doubted) = (seat.begun(), true);
        }
    }

    pub(super) async fn is_woken(&self) -> bool {
        tokio::select! {
            biased;
            () = self.doubt.notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Why the key is not there any more: a revoke leaves word.
    pub(super) async fn why_gone(&self, call: &Call, held: Held) -> Cause {
        let word = [self.own.word_of_a_revoke(held.standing.created)];
        let answer = self.cluster().txn(call, transactions::read(&word)).await;
        match answer.ok().and_then(|answer| transactions::were_read(&answer, 1).ok()) {
            Some((found, _)) if !found.is_empty() => Cause::Revoked,
            _ => Cause::Gone,
        }
    }
}

/// What is known of a lock that was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) standing: Standing,
    /// The last heartbeat that was begun before the latest news of this lock: its answer may not know of them.
    pub(super) news: u64,
    /// Whether those news were that something has changed, and not the grant.
    pub(super) doubted: bool,
    /// The last proof that was passed on.
    pub(super) told: u64,
}

/// What a proof says of a lock.
pub(super) enum Verdict {
    Held {
        valid_for: Duration,
        age: Duration,
    },
    /// For this reason, if the proof tells.
    Lost(Option<Cause>),
    /// It is too old to say.
    Unknown,
}

impl Held {
    /// What a proof says of the lock, `start` being the moment that counts.
    pub(super) fn judge(&self, proof: &Proof, key: &[u8], start: Instant) -> Verdict {
        if proof.state == Standings::Ended {
            return Verdict::Lost(Some(Cause::Session));
        }
        if proof.number > self.news {
            match proof.has.get(key) {
                // Another place than the one that was granted is none.
                Some(seen) if seen.created != self.standing.created => return Verdict::Lost(None),
                Some(seen) if seen.lease != proof.lease.id => return Verdict::Lost(Some(Cause::Revoked)),
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
