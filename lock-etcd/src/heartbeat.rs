//! Heartbeats: they keep a session alive and prove that it is.
//!
//! A server answers a keep-alive without asking the other members. It may be a former leader, with a successor that
//! knows nothing of the keep-alive. So an answer counts only together with a later linearizable read that shows the
//! same raft term. Then that term's leader still had its majority after it had prolonged the lease, and a later leader
//! starts every lease anew. The read covers the keys of all held locks, so it proves them too.
//!
//! A leader that stood still for longer than the ttl may, when it goes on, revoke leases that its successor has kept
//! alive. It knows the leases of its own term and of earlier ones. So when the term changes, all keys move to a fresh
//! lease.

mod moves;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::toolkit::{Call, Process};
use lock_core::{Clock, Instant};

use self::stream::{KeepAliveStream, Kept};
use crate::cluster::{Cluster, RequestError};
use crate::keys::Own;
use crate::lease::Lease;
use crate::session::{Abandoned, Proof, Session, SessionState};
use crate::sessions::Sessions;
use crate::transactions::{self, BATCH, KeyMetadata};

/// Keeps a session alive until it is idle or has ended.
pub(crate) async fn keep_alive(
    session: Arc<Session>,
    cluster: Arc<Cluster>,
    sessions: Weak<Sessions>,
    process: Process,
) {
    let clock = cluster.clock.clone();
    let mut heartbeat = Heartbeat { session, cluster, sessions, stream: None, held_back: 0 };
    loop {
        let Proof { asked, number, lease, .. } = heartbeat.session.proof();
        // The first heartbeat is sent at once, to find out early whether this server can be relied on.
        let next = if number == 0 { asked } else { asked + lease.ttl / 3 };
        tokio::select! {
            biased;
            () = heartbeat.session.wanted() => {}
            () = heartbeat.cluster.wait_for_term_above(heartbeat.session.lease().term) => {}
            () = clock.sleep_until(next) => {
                if number > 0 && !process.is_another() && heartbeat.close_if_idle().await {
                    return;
                }
            }
        }
        // Lease and stream belong to the process that opened them. If the copy of this task in a fork ended, the server
        // would see the stream end.
        process.only().await;
        if !heartbeat.session.is_alive() {
            return;
        }
        if !heartbeat.prove(&clock).await {
            if heartbeat.session.proof().number == 0 && heartbeat.held_back >= SUSPICIOUS {
                heartbeat.cluster.record_refusal(PROXY);
            }
            if let Some(sessions) = heartbeat.sessions.upgrade() {
                sessions.end(&heartbeat.session);
            }
            return;
        }
        heartbeat.remove_abandoned().await;
    }
}

struct Heartbeat {
    session: Arc<Session>,
    cluster: Arc<Cluster>,
    sessions: Weak<Sessions>,
    stream: Option<KeepAliveStream>,
    /// The number of keep-alives that the server left unanswered, while it answered reads, before it answered the first
    /// one.
    held_back: u32,
}

/// The outcome of a heartbeat.
enum Beat {
    Proven,
    /// Nothing is known. Another heartbeat may tell.
    Unknown,
    /// The answers are from two terms. Both requests have to be sent again at once.
    Between,
    /// The lease has ended, or this server cannot be relied on.
    Over,
}

impl Heartbeat {
    /// Closes the session if no claim uses it. Returns whether it did.
    async fn close_if_idle(&self) -> bool {
        let Some(sessions) = self.sessions.upgrade() else { return true };
        let is_idle = sessions.close_if_idle(&self.session);
        drop(sessions);
        if is_idle {
            let call = &Call::begin(&self.cluster.clock, self.step());
            self.cluster.revoke(call, self.session.lease().id).await.ok();
        }
        is_idle
    }

    /// Sends heartbeats until one proves the session, or until its lease may have ended. Returns whether there is a
    /// proof.
    async fn prove(&mut self, clock: &Clock) -> bool {
        while clock.now() < self.session.ends() && self.session.is_alive() {
            let began = clock.now();
            match self.beat().await {
                Beat::Proven => return true,
                Beat::Over => return false,
                Beat::Between => {}
                Beat::Unknown => {
                    self.stream = None;
                    // A request that was refused at once is not repeated at once.
                    clock.sleep_until(began + (self.step() / 4).min(LONGEST_PAUSE)).await;
                }
            }
        }
        false
    }

    /// Returns the time that one request may take: short enough that a lost message can be repeated, and another member
    /// asked, in time.
    fn step(&self) -> Duration {
        let left = self.session.ends().since(self.cluster.clock.now());
        (self.session.lease().ttl / 4).clamp(SHORTEST_STEP, LONGEST_STEP).min(left.max(SHORTEST_STEP))
    }

    async fn beat(&mut self) -> Beat {
        let number = self.session.begin_heartbeat();
        let lease = self.session.lease();
        if self.cluster.term() > lease.term {
            return self.move_to_fresh_lease(number, lease).await;
        }
        if !self.session.stragglers().is_empty() {
            return match self.move_stragglers(lease).await {
                Ok(_) => Beat::Between,
                Err(_) => Beat::Unknown,
            };
        }
        let (asked, term) = match self.keep(lease).await {
            Kept::Yes { asked, term } => (asked, term),
            Kept::Unknown => {
                if self.session.proof().number == 0 && self.read().await.is_some() {
                    self.held_back += 1;
                }
                return Beat::Unknown;
            }
            Kept::No if self.confirm_end(lease).await => return Beat::Over,
            Kept::No => return Beat::Unknown,
        };
        if term == 0 {
            self.cluster.record_refusal(PROXY);
            return Beat::Over;
        }
        self.cluster.note_term(term);
        match self.read().await {
            Some((has, terms)) if are_of_one_leader(term, &terms) => {
                self.record_proof(number, asked, lease, has)
            }
            Some(_) => Beat::Between,
            None => Beat::Unknown,
        }
    }

    fn record_proof(
        &self,
        number: u64,
        asked: Instant,
        lease: Lease,
        has: HashMap<Vec<u8>, KeyMetadata>,
    ) -> Beat {
        if self.cluster.clock.now() >= asked + lease.ttl || !self.session.is_alive() {
            return Beat::Unknown;
        }
        let has = Arc::new(has);
        self.session.record_proof(Proof { asked, number, lease, has, state: SessionState::Alive });
        Beat::Proven
    }

    /// Gives up the stream, and returns whether the lease is really gone. A member that lags behind may not know of it
    /// yet, so this reads keys.
    async fn confirm_end(&mut self, lease: Lease) -> bool {
        self.stream = None;
        match self.read().await {
            Some((has, _)) => has.values().all(|metadata| metadata.lease != lease.id),
            None => false,
        }
    }

    /// Reads the held keys. Returns those that exist, and the raft terms of the answers.
    async fn read(&self) -> Option<(HashMap<Vec<u8>, KeyMetadata>, Vec<u64>)> {
        let keys = self.session.held();
        let (mut has, mut terms) = (HashMap::new(), Vec::new());
        for batch in keys.chunks(BATCH) {
            let call = &Call::begin(&self.cluster.clock, self.step());
            let answer = self.cluster.txn(call, transactions::read(batch)).await.ok()?;
            let (found, term) = transactions::were_read(&answer, batch.len()).ok()?;
            has.extend(found.iter().map(|place| (place.key.clone(), KeyMetadata::from(place))));
            terms.push(term);
        }
        Some((has, terms))
    }

    /// Removes what unreleased claims have left. If there is no answer, it is tried again after the next proof.
    async fn remove_abandoned(&self) {
        for Abandoned { own, leases } in self.session.abandoned() {
            if self.remove(&own, &leases).await.is_ok() {
                self.session.forget_abandoned(&own);
            }
        }
    }

    async fn remove(&self, own: &Own, leases: &[i64]) -> Result<(), RequestError> {
        let call = &Call::begin(&self.cluster.clock, self.step());
        for lease in leases {
            match self.cluster.txn(call, transactions::release_with_tombstone(own, *lease)).await {
                Ok(_) | Err(RequestError::NoLease) => {}
                Err(error) => return Err(error),
            }
        }
        self.cluster.txn(call, transactions::release(own)).await.map(drop)
    }
}

const SHORTEST_STEP: Duration = Duration::from_millis(50);
const LONGEST_STEP: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// If this many keep-alives, and the whole life of a lease, had no answer, the cause is the server and not the network.
const SUSPICIOUS: u32 = 3;

const PROXY: &str = "the server at this address holds keep-alives back, or answers them without a raft term, as etcd's \
     grpc-proxy does. Then a client cannot know whether a lease was really prolonged, and when; put the members' own \
     addresses into the URL";

/// Returns whether the leader that answered a keep-alive also took part in the reads after it. Any member
/// that believes it is the leader answers a keep-alive; a read needs a majority (etcd's API guarantees,
/// *Linearizability*).
fn are_of_one_leader(keep_alive: u64, reads: &[u64]) -> bool {
    reads.iter().all(|read| *read == keep_alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keep_alive_counts_under_an_unchanged_leader() {
        assert!(are_of_one_leader(7, &[7, 7]));
        assert!(!are_of_one_leader(7, &[7, 8]), "another member is the leader by now");
        assert!(!are_of_one_leader(8, &[7]), "a member that lags behind returns old data");
    }
}
