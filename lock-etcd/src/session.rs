//! A session: one lease that many claims of a client share, and what is known of it and of their keys.
//!
//! The lease may be replaced while the session lives (a move); the keys then follow one by one. Everything that has to be
//! seen together, the present lease and which keys are where, is under one lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Instant;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::keys::Own;
use crate::lease::Lease;
use crate::transactions::Standing;

/// A session that is, or was, kept alive.
#[derive(Debug)]
pub(crate) struct Session {
    /// What its leases are asked for.
    pub(crate) seconds: i64,
    state: Mutex<State>,
    /// The proof is another one.
    proven: Notify,
    /// Somebody needs a proof now.
    wanted: Notify,
    /// How many heartbeats were begun.
    begun: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Where new keys go.
    lease: Lease,
    proof: Proof,
    members: HashMap<Vec<u8>, Member>,
    /// Whether a claim joined since this was last asked.
    joined: bool,
    /// The key of the last that joined: one that may be read.
    last: Vec<u8>,
    remains: Vec<Remains>,
}

/// What a claim has left that was cut short.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) own: Own,
    /// Under which its attempts may yet take effect.
    pub(crate) leases: Vec<i64>,
}

/// What the last heartbeat that was answered has shown.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// Before it was sent: the lease lives for its ttl from then on, at least.
    pub(crate) asked: Instant,
    /// Which heartbeat it was; zero before the first.
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    /// The held keys that were there.
    pub(crate) has: Arc<HashMap<Vec<u8>, Standing>>,
    /// Whether there will be another one.
    pub(crate) state: Standings,
}

impl Proof {
    /// Until when the lease is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.asked + self.lease.ttl
    }
}

/// How it stands with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standings {
    /// It is kept alive.
    Alive,
    /// Its lease has ended, or could not be proven in time: nobody keeps it alive any more.
    Ended,
}

/// A claim's part in a session.
#[derive(Debug)]
struct Member {
    /// Told when the session has ended.
    wake: Arc<Notify>,
    /// Its key, if it has a place.
    place: Option<Standing>,
    /// Whether its place is the lock, which each heartbeat proves.
    holds: bool,
}

/// A claim's membership; ends when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) session: Arc<Session>,
    key: Vec<u8>,
}

impl Session {
    /// A session whose lease was asked for at this moment, and granted.
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

    /// Until when the lease is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.state().proof.ends()
    }

    /// Resolves when there is another proof than at the time of this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Resolves when there is a later proof than this one. Cancel safe.
    pub(crate) async fn is_proven_after(&self, number: u64) {
        loop {
            let proven = self.proven();
            if self.state().proof.number > number {
                return;
            }
            proven.await;
        }
    }

    /// Asks for a proof at once.
    pub(crate) fn want_proof(&self) {
        self.wanted.notify_one();
    }

    /// Resolves when somebody wants a proof. For the heartbeat.
    pub(crate) fn wanted(&self) -> Notified<'_> {
        self.wanted.notified()
    }

    /// The number of a heartbeat that begins now.
    pub(crate) fn begins(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn is_proven(&self, proof: Proof) {
        self.state().proof = proof;
        self.proven.notify_waiters();
    }

    /// No more proofs. Wakes everybody who has a seat.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        state.proof.state = Standings::Ended;
        state.members.values().for_each(|member| member.wake.notify_one());
        drop(state);
        self.proven.notify_waiters();
        // Its task has nothing to do any more.
        self.want_proof();
    }

    // ---- leases and keys --------------------------------------------------------------------------------------------

    /// Where new keys go.
    pub(crate) fn lease(&self) -> Lease {
        self.state().lease
    }

    /// From now on new keys go to `fresh`.
    pub(crate) fn switch(&self, fresh: Lease) -> Lease {
        std::mem::replace(&mut self.state().lease, fresh)
    }

    /// The keys that are on another lease than the present one.
    pub(crate) fn stragglers(&self) -> Vec<(Vec<u8>, Standing)> {
        let state = self.state();
        let places = state.members.iter().filter_map(|(key, member)| Some((key.clone(), member.place?)));
        places.filter(|(_, place)| place.lease != state.lease.id).collect()
    }

    /// What was found of a straggler. One that nobody here moved is not moved any more.
    pub(crate) fn found(&self, key: &[u8], before: Standing, now: Option<Standing>) {
        let mut state = self.state();
        let lease = state.lease.id;
        if let Some(member) = state.members.get_mut(key)
            && member.place == Some(before)
        {
            member.place = now.filter(|now| now.lease == lease && now.created == before.created);
        }
    }

    /// The keys of the locks that are held; of a session without any, one that tells no more than the raft term.
    pub(crate) fn held(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        let held = state.members.iter().filter(|(_, member)| member.holds);
        let held: Vec<Vec<u8>> = held.map(|(key, _)| key.clone()).collect();
        if held.is_empty() { vec![state.last.clone()] } else { held }
    }

    /// Leaves to the session what a claim had that was cut short.
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

    /// Whether a claim is here, or was since this was last asked: one that comes and goes needs no session each time.
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
    /// Notes where the claim's key is, and answers where it has to be: heartbeats take care of it from now on.
    pub(crate) fn stands(&self, place: Standing) -> Lease {
        let mut state = self.session.state();
        if let Some(member) = state.members.get_mut(&self.key) {
            member.place = Some(place);
        }
        state.lease
    }

    /// The key's place is the lock. The number of the last heartbeat that may not know of it.
    pub(crate) fn holds(&self) -> u64 {
        if let Some(member) = self.session.state().members.get_mut(&self.key) {
            member.holds = true;
        }
        self.begun()
    }

    /// The claim has no place any more.
    pub(crate) fn leaves(&self) {
        if let Some(member) = self.session.state().members.get_mut(&self.key) {
            (member.place, member.holds) = (None, false);
        }
    }

    /// How many heartbeats were begun so far: only those after them are certain to know of what is so now.
    pub(crate) fn begun(&self) -> u64 {
        self.session.begun.load(Ordering::SeqCst)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.session.state().members.remove(&self.key);
    }
}
