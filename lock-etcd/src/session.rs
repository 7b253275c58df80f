//! A session: one lease that many claims of a client share, and what is known of the lease and of the claims' keys.
//!
//! The lease may be replaced while the session lives (a move); then the keys follow one by one. The current lease, and
//! which key is on which lease, are under one lock, because they have to be read together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Instant;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::keys::Own;
use crate::lease::Lease;
use crate::transactions::Standing;

/// A session: kept alive, or ended.
#[derive(Debug)]
pub(crate) struct Session {
    /// The ttl with which its leases are requested, in seconds.
    pub(crate) seconds: i64,
    state: Mutex<State>,
    /// Notified when there is a new proof.
    proven: Notify,
    /// Notified when a claim needs a proof now.
    wanted: Notify,
    /// How many heartbeats have begun.
    begun: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// The lease under which new keys are put.
    lease: Lease,
    proof: Proof,
    members: HashMap<Vec<u8>, Member>,
    /// Whether a claim has joined since the last call of [`Session::is_in_use`].
    joined: bool,
    /// The key of the claim that joined last: a key that the user may read.
    last: Vec<u8>,
    remains: Vec<Remains>,
}

/// What a claim has left that was dropped without a release.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) own: Own,
    /// The leases of its unanswered attempts, which may still take effect.
    pub(crate) leases: Vec<i64>,
}

/// What the last answered heartbeat has shown.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// A moment before the heartbeat was sent: the lease lives from then for at least its ttl.
    pub(crate) asked: Instant,
    /// The number of the heartbeat; zero before the first.
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    /// The held keys that existed.
    pub(crate) has: Arc<HashMap<Vec<u8>, Standing>>,
    /// Whether there will be another proof.
    pub(crate) state: Standings,
}

impl Proof {
    /// Returns until when the lease certainly lives.
    pub(crate) fn ends(&self) -> Instant {
        self.asked + self.lease.ttl
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standings {
    /// The session is kept alive.
    Alive,
    /// Its lease has ended, or could not be proven in time. No heartbeat is sent any more.
    Ended,
}

/// A claim's part in a session.
#[derive(Debug)]
struct Member {
    /// Notified when the session has ended.
    wake: Arc<Notify>,
    /// Where its key stands, if the claim has a place.
    place: Option<Standing>,
    /// Whether its place is the lock. Each heartbeat then proves the key.
    holds: bool,
}

/// A claim's membership in a session. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) session: Arc<Session>,
    key: Vec<u8>,
}

impl Session {
    /// Creates a session whose lease was granted, and had been requested at `asked`.
    pub(crate) fn new(seconds: i64, lease: Lease, asked: Instant) -> Session {
        let proof = Proof { asked, number: 0, lease, has: Arc::default(), state: Standings::Alive };
        let (members, remains) = (HashMap::new(), Vec::new());
        let state = State { lease, proof, members, joined: false, last: Vec::new(), remains };
        Session {
            seconds,
            state: Mutex::new(state),
            proven: Notify::new(),
            wanted: Notify::new(),
            begun: AtomicU64::new(0),
        }
    }

    pub(crate) fn seat(self: &Arc<Self>, key: &[u8], wake: &Arc<Notify>) -> Seat {
        let mut state = self.state();
        state.members.insert(key.to_vec(), Member { wake: wake.clone(), place: None, holds: false });
        state.joined = true;
        state.last = key.to_vec();
        drop(state);
        Seat { session: self.clone(), key: key.to_vec() }
    }

    // ---- proofs -----------------------------------------------------------------------------------------------------

    pub(crate) fn proof(&self) -> Proof {
        self.state().proof.clone()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.state().proof.state == Standings::Alive
    }

    /// Returns until when the lease certainly lives.
    pub(crate) fn ends(&self) -> Instant {
        self.state().proof.ends()
    }

    /// Waits for the next proof after this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Waits until there is a later proof than number `number`. Cancel safe.
    pub(crate) async fn is_proven_after(&self, number: u64) {
        loop {
            let proven = self.proven();
            if self.state().proof.number > number {
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
    pub(crate) fn begins(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn is_proven(&self, proof: Proof) {
        self.state().proof = proof;
        self.proven.notify_waiters();
    }

    /// Notes that there will be no more proofs, and wakes all claims of the session.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        state.proof.state = Standings::Ended;
        state.members.values().for_each(|member| member.wake.notify_one());
        drop(state);
        self.proven.notify_waiters();
        // Wakes the heartbeat task, so that it ends.
        self.want_proof();
    }

    // ---- leases and keys --------------------------------------------------------------------------------------------

    /// Returns the lease under which new keys are put.
    pub(crate) fn lease(&self) -> Lease {
        self.state().lease
    }

    /// From now on, new keys are put under `fresh`. Returns the lease before.
    pub(crate) fn switch(&self, fresh: Lease) -> Lease {
        std::mem::replace(&mut self.state().lease, fresh)
    }

    /// Returns the keys that are on another lease than the current one.
    pub(crate) fn stragglers(&self) -> Vec<(Vec<u8>, Standing)> {
        let state = self.state();
        let places = state.members.iter().filter_map(|(key, member)| Some((key.clone(), member.place?)));
        places.filter(|(_, place)| place.lease != state.lease.id).collect()
    }

    /// Notes how a straggler stands now. If its key is on another lease or was created again, it is not moved any more.
    pub(crate) fn found(&self, key: &[u8], before: Standing, now: Option<Standing>) {
        let mut state = self.state();
        let lease = state.lease.id;
        if let Some(member) = state.members.get_mut(key)
            && member.place == Some(before)
        {
            member.place = now.filter(|now| now.lease == lease && now.created == before.created);
        }
    }

    /// Returns the keys of the held locks. If no lock is held, returns one key that the user may read: its read shows
    /// the raft term.
    pub(crate) fn held(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        let held = state.members.iter().filter(|(_, member)| member.holds);
        let held: Vec<Vec<u8>> = held.map(|(key, _)| key.clone()).collect();
        if held.is_empty() { vec![state.last.clone()] } else { held }
    }

    /// Takes over what a claim has left that was dropped without a release.
    pub(crate) fn leave_behind(&self, remains: Remains) {
        self.state().remains.push(remains);
        self.want_proof();
    }

    pub(crate) fn remains(&self) -> Vec<Remains> {
        self.state().remains.clone()
    }

    pub(crate) fn is_cleared(&self, own: &Own) {
        self.state().remains.retain(|remains| remains.own.value != own.value);
    }

    /// Whether a claim is in the session, or has joined since the last call. So a client whose claims come and go keeps
    /// its session.
    pub(crate) fn is_in_use(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.joined) || !state.members.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Notes where the claim's key is, and returns the lease on which it has to be. From now on heartbeats move the
    /// key.
    pub(crate) fn stands(&self, place: Standing) -> Lease {
        let mut state = self.session.state();
        if let Some(member) = state.members.get_mut(&self.key) {
            member.place = Some(place);
        }
        state.lease
    }

    /// Notes that the claim's place is the lock. Returns the number of the last heartbeat that may not include its key.
    pub(crate) fn holds(&self) -> u64 {
        if let Some(member) = self.session.state().members.get_mut(&self.key) {
            member.holds = true;
        }
        self.begun()
    }

    /// Notes that the claim has no place any more.
    pub(crate) fn leaves(&self) {
        if let Some(member) = self.session.state().members.get_mut(&self.key) {
            (member.place, member.holds) = (None, false);
        }
    }

    /// Returns how many heartbeats have begun. Only later ones certainly include the present state.
    pub(crate) fn begun(&self) -> u64 {
        self.session.begun.load(Ordering::SeqCst)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.session.state().members.remove(&self.key);
    }
}
