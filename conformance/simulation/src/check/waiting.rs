//! I5 and I9: a waiter has the lock soon after nothing prevents it, and is woken when the lock is released.

use super::disturbances::undisturbed;
use super::{Checker, Invariant};
use crate::clocks::at_most;
use crate::ids::{CallId, LockId};
use crate::rules::WakesBy;

/// The patience of one request, and the core's pause after many requests that failed.
const RETRY: u64 = 333_334 + 1_000_000;
/// The longest time to the core's own look where the server pushes, by the slowest clock.
const SAFETY: u64 = 5_030_000;
/// The longest time from the event that frees a lock, or gives it to a waiter, until that waiter knows: a push, a
/// request, an answer, and the turns of others.
const WOKEN: u64 = 50_000;
/// On several servers, no candidate may have won. Candidates then pause, for this long at most.
const SPLIT: u64 = 250_000;

/// The checker's knowledge of the waiters of a lock.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// When a guard last held the lock.
    live: u64,
    /// Since when the server has had this holder, or none, and the same calls have had parts of it.
    since: u64,
    /// Since when the server has had this holder, or none.
    pub(super) holder_since: u64,
    /// The server has no holder, and has notified the clients that listen.
    announced: bool,
    /// A violation was reported for this wait.
    told: bool,
}

impl Checker {
    /// Time goes on to `at`, and nothing has changed until now: reports a wait that is too long.
    pub(super) fn waits_until(&mut self, at: u64) {
        for lock in 0..self.locks.len() {
            if !self.locks[lock].open.is_empty() {
                self.locks[lock].waiting.live = at;
            }
            if self.locks[lock].waiting.told || self.locks[lock].asking.is_empty() {
                continue;
            }
            if let Some((call, due)) = self.wake_up_due(lock, at)
                && at > due
            {
                let why = format!("the lock was free or call {call}'s, and call {call} did not hear of it");
                self.waits_too_long(Invariant::WokenUp, lock, call, why);
            } else if let Some((call, due)) = self.grant_due(lock, at)
                && at > due
            {
                let why = format!("nothing was in the way of call {call} until {due} us, and it still waits");
                self.waits_too_long(Invariant::Liveness, lock, call, why);
            }
        }
    }

    fn waits_too_long(&mut self, invariant: Invariant, lock: LockId, call: CallId, why: String) {
        self.locks[lock].waiting.told = true;
        self.broken(invariant, [call], why);
    }

    pub(super) fn held_by_another(&mut self, lock: LockId) {
        let waiting = &mut self.locks[lock].waiting;
        (waiting.since, waiting.told, waiting.announced) = (self.at, false, false);
    }

    /// A release has ended a hold, and the server notifies the clients that listen. It notifies no client of a lease
    /// that ends by itself.
    pub(super) fn is_announced(&mut self, of: Option<CallId>) {
        if let Some(lock) = of.and_then(|call| self.calls.get(call)).map(|call| call.lock) {
            self.locks[lock].waiting.announced |= self.locks[lock].holder.is_none();
        }
    }

    /// This call, which has waited, has the lock now: counts the opportunities.
    pub(super) fn is_served(&mut self, call: CallId, lock: LockId) {
        self.locks[lock].waiting.told = false;
        if !self.calls[call].saw_another || self.calls[call].waits_until.is_none() {
            return;
        }
        if self.grant_due_to(call, lock) - self.served_within() <= self.at {
            self.could(Invariant::Liveness);
        }
        if self.pushes_alone() && self.heard_from(call) <= self.at {
            self.could(Invariant::WokenUp);
        }
    }

    // ---- I5 ---------------------------------------------------------------------------------------------------------

    /// Returns the waiter that must have the lock first, and by when.
    fn grant_due(&self, lock: LockId, at: u64) -> Option<(CallId, u64)> {
        let waiting = self.locks[lock].asking.iter().filter(|call| self.still_waits(**call, at));
        waiting.map(|call| (*call, self.grant_due_to(*call, lock))).min_by_key(|(_, due)| *due)
    }

    fn grant_due_to(&self, call: CallId, lock: LockId) -> u64 {
        let mut from =
            self.calls[call].asked.max(self.disturbances.anything).max(self.locks[lock].waiting.live);
        if self.disturbances.news_of_anyone() > 0 {
            from = from.max(self.disturbances.news_of_anyone() + SAFETY);
        }
        from + self.served_within()
    }

    /// Returns how long a grant may take when nothing prevents it: what a holder that is gone has left must end, and
    /// the lock must be asked for once more.
    fn served_within(&self) -> u64 {
        let looks = if self.pushes_alone() { SAFETY } else { 0 };
        self.disturbances.longest_lease() + RETRY + looks
    }

    // ---- I9 ---------------------------------------------------------------------------------------------------------

    /// Returns the waiter that must be woken first, and by when: a free lock must have a holder by then, and a waiter
    /// that is the holder at the server must know it.
    fn wake_up_due(&self, lock: LockId, at: u64) -> Option<(CallId, u64)> {
        if !self.pushes_alone() {
            return None;
        }
        let known = &self.locks[lock];
        let waiting: Vec<CallId> = match (known.holder, &known.parts[..]) {
            (None, []) if known.waiting.announced => known.asking.clone(),
            (Some(holder), _) => {
                let knows =
                    |call: &CallId| *call == holder && self.asked_for_it(*call, known.waiting.holder_since);
                known.asking.iter().copied().filter(knows).collect()
            }
            (None, _) => return None,
        };
        // If another call of its process has the lock, as far as the process knows, the waiter waits for that call.
        let contends = |call: &CallId| !known.claims.contains(&self.calls[*call].client);
        let waiting = waiting.into_iter().filter(|call| self.still_waits(*call, at) && contends(call));
        let (call, from) = waiting.map(|call| (call, self.heard_from(call))).min_by_key(|(_, from)| *from)?;
        Some((call, from.max(known.waiting.since) + self.woken_within()))
    }

    /// Returns whether a call that was given the lock then receives the answer. If a request arrives twice, only one
    /// answer is received.
    fn asked_for_it(&self, call: CallId, since: u64) -> bool {
        self.disturbances.twice[self.calls[call].client] < since
    }

    /// As `hears_from`, but later if clocks were set back and an earlier attempt of this call may have been revoked:
    /// the server then refuses each attempt that is no later than that one by the server's clock.
    fn heard_from(&self, call: CallId) -> u64 {
        let from = self.hears_from(call);
        let set_back = self.disturbances.set_back;
        match set_back > 0 && self.may_be_revoked(call) {
            true => from + at_most(set_back),
            false => from,
        }
    }

    /// Returns from when on this call is notified at once.
    fn hears_from(&self, call: CallId) -> u64 {
        let known = &self.calls[call];
        let (trouble, news) =
            (self.disturbances.without_any(known.client), self.disturbances.news[known.client]);
        let recovered = if trouble == 0 { 0 } else { trouble + RETRY };
        let looked = if news == 0 { 0 } else { news + SAFETY };
        let ended = self.locks[known.lock].ended.get(&known.client).copied().unwrap_or(0);
        known.asked.max(recovered).max(looked).max(ended)
    }

    fn woken_within(&self) -> u64 {
        if self.disturbances.servers() > 1 { WOKEN + SPLIT } else { WOKEN }
    }

    /// Returns whether it waits beyond this time.
    pub(super) fn still_waits(&self, call: CallId, at: u64) -> bool {
        self.calls[call].waits_until.is_some_and(|until| until > at)
    }

    fn pushes_alone(&self) -> bool {
        self.disturbances.rules.is_some_and(|rules| rules.wakes == WakesBy::PushesAlone)
    }

    /// Returns whether this call's client was undisturbed from this time on.
    pub(super) fn was_undisturbed(&self, call: CallId, from: u64) -> bool {
        undisturbed(self.disturbances.without_any(self.calls[call].client), from)
    }
}
