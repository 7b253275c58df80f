//! A session: one lease that many claims of a client share, and what is known of the lease and of the claims' keys.
//!
//! The lease may be replaced while the session lives (a move); then the keys follow one by one. The current lease, and
//! which key is on which lease, are under one lock, because they have to be read together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Instant;
use lock_core::toolkit::{self, Keepable};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::keys::Own;
use crate::lease::Lease;
use crate::transactions::KeyMetadata;

/// A session: kept alive, or ended.
#[derive(Debug)]
pub(crate) struct Session {
    /// The ttl with which its leases are requested, in seconds.
    pub(crate) seconds: i64,
    inner: Mutex<Inner>,
    /// Notified when there is a new proof.
    proven: Notify,
    /// Notified when a claim needs a proof now.
    wanted: Notify,
    /// The number of heartbeats that have begun.
    begun: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    /// The lease under which new keys are put.
    lease: Lease,
    proof: Proof,
    /// The claims of the session, by their keys.
    members: HashMap<Vec<u8>, Part>,
    /// The key of the claim that joined last: a key that the user may read.
    last: Vec<u8>,
    abandoned: Vec<Abandoned>,
}

/// The remains of a claim that was dropped without a release.
#[derive(Clone, Debug)]
pub(crate) struct Abandoned {
    pub(crate) own: Own,
    /// The leases of its unanswered attempts, which may still take effect.
    pub(crate) leases: Vec<i64>,
}

/// The proof by the last answered heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// A moment before the heartbeat was sent: the lease lives from then for at least its ttl.
    pub(crate) asked: Instant,
    /// The number of the heartbeat; zero before the first.
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    /// The held keys that existed.
    pub(crate) has: Arc<HashMap<Vec<u8>, KeyMetadata>>,
    /// The state of the session: only a live one gets another proof.
    pub(crate) state: SessionState,
}

impl Proof {
    /// Returns until when the lease certainly lives.
    pub(crate) fn ends(&self) -> Instant {
        self.asked + self.lease.ttl
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// The session is kept alive.
    Alive,
    /// The session's lease has ended, or could not be proven in time. No heartbeat is sent any more.
    Ended,
}

/// A claim in a session.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: Vec<u8>,
    /// Notified when the session has ended.
    pub(crate) wake: Arc<Notify>,
}

/// A claim's part in a session.
#[derive(Debug)]
struct Part {
    wake: Arc<Notify>,
    /// Where its key stands, if the claim has a place.
    place: Option<KeyMetadata>,
    /// Its place is the lock. Each heartbeat then proves the key.
    holds: bool,
}

/// A claim's membership in a session. It ends when dropped.
pub(crate) type Membership = toolkit::Membership<Session>;

impl Session {
    /// Creates a session whose lease was granted, and had been requested at `asked`.
    pub(crate) fn new(seconds: i64, lease: Lease, asked: Instant) -> Session {
        let proof = Proof { asked, number: 0, lease, has: Arc::default(), state: SessionState::Alive };
        let (members, abandoned) = (HashMap::new(), Vec::new());
        let inner = Inner { lease, proof, members, last: Vec::new(), abandoned };
        Session {
            seconds,
            inner: Mutex::new(inner),
            proven: Notify::new(),
            wanted: Notify::new(),
            begun: AtomicU64::new(0),
        }
    }

    // ---- proofs -----------------------------------------------------------------------------------------------------

    pub(crate) fn proof(&self) -> Proof {
        self.lock().proof.clone()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.lock().proof.state == SessionState::Alive
    }

    /// Returns until when the lease certainly lives.
    pub(crate) fn ends(&self) -> Instant {
        self.lock().proof.ends()
    }

    /// Waits for the next proof after this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Waits until there is a later proof than number `number`. Cancel safe.
    pub(crate) async fn wait_for_proof_after(&self, number: u64) {
        loop {
            let proven = self.proven();
            if self.lock().proof.number > number {
                return;
            }
            proven.await;
        }
    }

    /// Requests a proof at once.
    pub(crate) fn want_proof(&self) {
        self.wanted.notify_one();
    }

    /// Waits until a claim requests a proof. For the heartbeat.
    pub(crate) fn wanted(&self) -> Notified<'_> {
        self.wanted.notified()
    }

    /// Counts a heartbeat that begins now, and returns its number.
    pub(crate) fn begin_heartbeat(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns how many heartbeats have begun. Only later ones certainly include the present state.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn record_proof(&self, proof: Proof) {
        self.lock().proof = proof;
        self.proven.notify_waiters();
    }

    /// Notes that there will be no more proofs, and wakes all claims of the session.
    pub(crate) fn end(&self) {
        let mut inner = self.lock();
        inner.proof.state = SessionState::Ended;
        inner.members.values().for_each(|part| part.wake.notify_one());
        drop(inner);
        self.proven.notify_waiters();
        // Wakes the heartbeat task, so that it ends.
        self.want_proof();
    }

    // ---- leases and keys --------------------------------------------------------------------------------------------

    /// Returns the lease under which new keys are put.
    pub(crate) fn lease(&self) -> Lease {
        self.lock().lease
    }

    /// From now on, new keys are put under `fresh`. Returns the lease before.
    pub(crate) fn switch(&self, fresh: Lease) -> Lease {
        std::mem::replace(&mut self.lock().lease, fresh)
    }

    /// Notes where a claim's key is, and returns the lease on which it has to be. From now on heartbeats move the key.
    pub(crate) fn record_place(&self, member: &Member, place: KeyMetadata) -> Lease {
        let mut inner = self.lock();
        if let Some(part) = inner.members.get_mut(&member.key) {
            part.place = Some(place);
        }
        inner.lease
    }

    /// Notes that a claim's place is the lock. Returns the number of the last heartbeat that may not include its key.
    pub(crate) fn record_grant(&self, member: &Member) -> u64 {
        if let Some(part) = self.lock().members.get_mut(&member.key) {
            part.holds = true;
        }
        self.begun()
    }

    /// Notes that a claim has no place any more.
    pub(crate) fn forget_place(&self, member: &Member) {
        if let Some(part) = self.lock().members.get_mut(&member.key) {
            (part.place, part.holds) = (None, false);
        }
    }

    /// Returns the keys that are on another lease than the current one.
    pub(crate) fn stragglers(&self) -> Vec<(Vec<u8>, KeyMetadata)> {
        let inner = self.lock();
        let places = inner.members.iter().filter_map(|(key, part)| Some((key.clone(), part.place?)));
        places.filter(|(_, place)| place.lease != inner.lease.id).collect()
    }

    /// Notes how a straggler stands now. If its key is on another lease or was created again, it is not moved any more.
    pub(crate) fn update_straggler(&self, key: &[u8], before: KeyMetadata, now: Option<KeyMetadata>) {
        let mut inner = self.lock();
        let lease = inner.lease.id;
        if let Some(part) = inner.members.get_mut(key)
            && part.place == Some(before)
        {
            part.place = now.filter(|now| now.lease == lease && now.created == before.created);
        }
    }

    /// Returns the keys of the held locks. If no lock is held, returns one key that the user may read: its read shows
    /// the raft term.
    pub(crate) fn held(&self) -> Vec<Vec<u8>> {
        let inner = self.lock();
        let held = inner.members.iter().filter(|(_, part)| part.holds);
        let held: Vec<Vec<u8>> = held.map(|(key, _)| key.clone()).collect();
        if held.is_empty() { vec![inner.last.clone()] } else { held }
    }

    /// Takes over what a claim has left that was dropped without a release.
    pub(crate) fn add_abandoned(&self, abandoned: Abandoned) {
        self.lock().abandoned.push(abandoned);
        self.want_proof();
    }

    pub(crate) fn abandoned(&self) -> Vec<Abandoned> {
        self.lock().abandoned.clone()
    }

    pub(crate) fn forget_abandoned(&self, own: &Own) {
        self.lock().abandoned.retain(|abandoned| abandoned.own.value != own.value);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keepable for Session {
    type Member = Member;

    fn is_usable(&self, now: Instant) -> bool {
        self.is_alive() && now < self.ends()
    }

    fn is_in_use(&self) -> bool {
        !self.lock().members.is_empty()
    }

    fn add_member(&self, member: &Member) {
        let Member { key, wake } = member.clone();
        let mut inner = self.lock();
        inner.last = key.clone();
        inner.members.insert(key, Part { wake, place: None, holds: false });
    }

    fn remove_member(&self, member: &Member) {
        self.lock().members.remove(&member.key);
    }
}
