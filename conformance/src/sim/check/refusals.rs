//! I7: nobody is refused because of a holder that there is not.

use super::weather::in_order;
use super::{Call, Checker, Invariant, Lock, at_most};
use crate::sim::LONGEST_TTL;
use crate::sim::log::{CallId, LockId, Why};
use crate::sim::tally::micros;

/// What a look of a moment ago may not have seen.
const JUST_NOW: u64 = 10_000;

/// By when one silent node of several can't have kept an answer back: two attempts, and a look.
const FOR_A_SILENT_NODE: u64 = 2 * 333_334 + 50_000;

/// How long the server has for its first answer to the call whose turn has come.
const FIRST_ANSWER: u64 = 100_000;

/// How long the look takes with which a wait ends behind another one of its process, at most: each node is asked once.
const LOOK: u64 = 50_000 + JUST_NOW;

impl Checker {
    pub(super) fn not_granted(&mut self, call: CallId, why: Why) {
        let lock = self.calls[call].lock;
        self.locks[lock].asking.retain(|asking| *asking != call);
        match why {
            Why::Busy | Why::Timeout => self.met_another(call, why),
            Why::Unexpected => {
                self.broken(Invariant::TruthfulRefusal, vec![call], "an error without a reason".to_owned());
            }
            Why::Unavailable => self.is_in_trouble(call),
            Why::Lost => {
                self.could(Invariant::TruthfulRefusal);
                let ends = self.calls[call].terms.is_some_and(|terms| terms.max_hold.is_some());
                if !ends && !self.may_be_lost(call) && !self.may_be_revoked(call) {
                    let why = "lost before its caller had it, and nothing had gone wrong".to_owned();
                    self.broken(Invariant::TruthfulRefusal, vec![call], why);
                }
            }
            Why::Cancelled => {}
        }
        self.gives_way(call);
    }

    /// Refused because of another holder, or of another caller that was before it.
    fn met_another(&mut self, call: CallId, why: Why) {
        self.could(Invariant::TruthfulRefusal);
        if self.calls[call].saw_another {
            return;
        }
        let excused = self.stood_behind_another(call) || self.stood_behind_itself(call);
        match why == Why::Timeout && excused {
            true => self.excused(Invariant::TruthfulRefusal),
            false => {
                let why = format!("{why:?}, and no other call held the lock since it asked");
                self.broken(Invariant::TruthfulRefusal, vec![call], why);
            }
        }
    }

    /// What others of its process saw before it was answered is no longer so.
    pub(super) fn gives_way(&mut self, call: CallId) {
        let Call { client, lock, .. } = self.calls[call];
        self.locks[lock].turns.insert(client, self.at);
    }

    /// Said to be out of reach: the servers were, or a majority of them. What went wrong a lease before may have cost the
    /// client its session, which it is still about to replace.
    fn is_in_trouble(&mut self, call: CallId) {
        self.could(Invariant::TruthfulRefusal);
        let Call { client, asked, .. } = self.calls[call];
        let from = asked.saturating_sub(micros(LONGEST_TTL));
        // One server of several that is silent delays each refusal, by as long as a patient client waits for a node.
        let trouble = match self.at - asked < FOR_A_SILENT_NODE {
            true => self.weather.without_any(client),
            false => self.weather.without_a_majority(client),
        };
        // What an earlier try was told to forget, and hears once more, takes votes from the next one.
        let several = self.is_of_several();
        let trouble = if several { trouble.max(self.weather.twice(client)) } else { trouble };
        let looks_in_trouble =
            several && !in_order(self.weather.without_any(client), self.at.saturating_sub(LOOK));
        if !in_order(trouble, from) || looks_in_trouble {
            return;
        }
        match self.turn_has_just_come(call) || self.is_refused_by_a_clock(call) {
            true => self.excused(Invariant::TruthfulRefusal),
            false => {
                let why = "unavailable, and nothing had gone wrong".to_owned();
                self.broken(Invariant::TruthfulRefusal, vec![call], why);
            }
        }
    }

    /// Whether the call before it in its process has only now given way: the server had no time for an answer.
    fn turn_has_just_come(&self, call: CallId) -> bool {
        let Call { client, lock, .. } = self.calls[call];
        self.locks[lock].turns.get(&client).is_some_and(|turn| self.at - turn < JUST_NOW)
    }

    /// Whether a server refuses this call, or the one before it in its process, since an attempt of that was revoked: until
    /// its clock, which was set back, has caught up.
    fn is_refused_by_a_clock(&self, call: CallId) -> bool {
        let Call { client, lock, .. } = self.calls[call];
        let set_back = self.weather.set_back();
        let Lock { asking, revoked, .. } = &self.locks[lock];
        let is_over = self.at > revoked + at_most(set_back) + micros(LONGEST_TTL);
        let is_of_it = |other: &CallId| *other <= call && self.calls[*other].client == client;
        let mut refused = asking.iter().chain([&call]).filter(|other| is_of_it(other));
        set_back > 0 && !is_over && refused.any(|other| self.may_be_revoked(*other))
    }

    /// Whether one of several servers may have held it for an earlier try of this same call: that was told to forget it, and
    /// heard the try once more.
    fn stood_behind_itself(&self, call: CallId) -> bool {
        let Call { client, asked, .. } = self.calls[call];
        self.is_of_several() && !in_order(self.weather.twice(client), asked)
    }

    fn is_of_several(&self) -> bool {
        self.weather.rules().is_some_and(|rules| rules.servers > 1)
    }

    /// Whether another call of its process was before it until its wait ended, or until the look with which it ended. One
    /// that was cancelled, or gave up, is before it until what it asked for is settled.
    fn stood_behind_another(&self, call: CallId) -> bool {
        let Call { client, lock, asked, .. } = self.calls[call];
        let lock = &self.locks[lock];
        let is_before = |other: &CallId| *other < call && self.calls[*other].client == client;
        if lock.asking.iter().any(|other| is_before(other) && self.calls[*other].waits_until.is_some()) {
            return true;
        }
        let Some(turn) = lock.turns.get(&client).copied() else { return false };
        let lease = micros(LONGEST_TTL);
        match in_order(self.weather.without_any(client), turn.saturating_sub(lease)) {
            true => turn >= asked && self.at - turn < FIRST_ANSWER + LOOK,
            // A process that stood still settles nothing meanwhile.
            false => self.at - turn.max(self.weather.stop(client)) < FIRST_ANSWER + LOOK + lease,
        }
    }

    /// Whether another one than this call of this client has the lock, or may have.
    pub(super) fn may_be_held(&self, lock: LockId, client: usize, call: CallId) -> bool {
        let lock = &self.locks[lock];
        // In a process that goes on after a stop, much happens in one moment.
        let until_now = lock.ended.get(&client) == Some(&self.at);
        let has = lock.holder.iter().chain(&lock.parts).any(|holder| *holder != call);
        until_now || lock.claims.contains(&client) || has
    }

    /// Of several who meet, each may have a part, and nobody a majority.
    pub(super) fn parts_are(&mut self, lock: LockId, calls: &[CallId]) {
        self.locks[lock].parts = calls.to_vec();
        self.held_by_another(lock);
        for asking in &self.locks[lock].asking {
            self.calls[*asking].saw_another |= calls.iter().any(|call| call != asking);
        }
        for open in &self.locks[lock].open {
            self.calls[*open].was_anothers |= calls.iter().any(|call| call != open);
        }
    }

    pub(super) fn holder_is(&mut self, lock: LockId, holder: Option<CallId>) {
        self.locks[lock].holder = holder;
        self.locks[lock].waiting.holder_since = self.at;
        self.held_by_another(lock);
        let Some(holder) = holder else { return };
        if let Some(last) = self.locks[lock].last_holder.replace(holder).filter(|last| *last != holder) {
            self.call(last).was_anothers = true;
        }
        for asking in &self.locks[lock].asking {
            self.calls[*asking].saw_another |= *asking != holder;
        }
        for open in &self.locks[lock].open {
            self.calls[*open].was_anothers |= *open != holder;
        }
        self.has_it_again(holder);
        self.is_next(lock, holder);
    }

    /// Whose release is not answered may hold the lock, for all that its process knows: those who wait behind it in the
    /// same process are told so.
    pub(super) fn claim_begins(&mut self, client: usize, lock: LockId) {
        self.locks[lock].claims.push(client);
        for asking in &self.locks[lock].asking {
            let call = &mut self.calls[*asking];
            call.saw_another |= call.client == client;
        }
    }

    pub(super) fn claim_ends(&mut self, client: usize, lock: LockId) {
        self.locks[lock].ended.insert(client, self.at);
        self.locks[lock].turns.insert(client, self.at);
        let claims = &mut self.locks[lock].claims;
        if let Some(at) = claims.iter().position(|claim| *claim == client) {
            claims.swap_remove(at);
        }
    }
}
