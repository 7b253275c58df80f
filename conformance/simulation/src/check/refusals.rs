//! I7: no call is refused because of a holder that doesn't exist.

use super::disturbances::undisturbed;
use super::{Call, Checker, Invariant, Lock};
use crate::clocks::at_most;
use crate::ids::{CallId, LockId};
use crate::log::{Claim, Why};
use crate::rules::FamilyName;
use crate::setting::LONGEST_TTL;
use crate::timeline::micros;

/// An event younger than this may be missing from a look.
const JUST_NOW: u64 = 10_000;

/// From this duration on, one silent node of several can't have delayed an answer: two attempts, and a look.
const FOR_A_SILENT_NODE: u64 = 2 * 333_334 + 50_000;

/// The time that the server has for its first answer to the call whose turn has come.
const FIRST_ANSWER: u64 = 100_000;

/// The longest duration of the look at the end of a wait behind another call of the same process: each node is asked
/// once.
const LOOK: u64 = 50_000 + JUST_NOW;

/// The longest time that a client may be without a connection for wake-ups after one has failed: the longest pause
/// before the next one, a subscription that is not answered before that pause and one after it, each on a slow clock. A
/// claim that wants to listen meanwhile waits in vain.
const NEXT_FEED: u64 = 2_000_000 + 2 * 200_000 + 100_000;

impl Checker {
    pub(super) fn not_granted(&mut self, call: CallId, why: Why) {
        let lock = self.calls[call].lock;
        self.locks[lock].asking.retain(|asking| *asking != call);
        match why {
            Why::Busy | Why::Timeout => self.met_another(call, why),
            Why::Unexpected => self.broken(Invariant::TruthfulRefusal, [call], "an error without a reason"),
            Why::Unavailable => self.is_in_trouble(call),
            Why::Lost => {
                self.could(Invariant::TruthfulRefusal);
                let ends = self.calls[call].terms.is_some_and(|terms| terms.max_hold.is_some());
                if !ends && !self.may_be_lost(call) && !self.may_be_revoked(call) {
                    let why = "lost before its caller had it, and nothing had gone wrong";
                    self.broken(Invariant::TruthfulRefusal, [call], why);
                }
            }
            Why::Cancelled => {}
        }
        self.gives_way(call);
    }

    /// Checks a refusal because of another holder, or of another caller that was before this one.
    fn met_another(&mut self, call: CallId, why: Why) {
        self.could(Invariant::TruthfulRefusal);
        if self.calls[call].saw_another {
            return;
        }
        let stood_behind = || self.stood_behind_another(call) || self.stood_behind_itself(call);
        if self.seems_held(call) || (why == Why::Timeout && stood_behind()) {
            return self.excused(Invariant::TruthfulRefusal);
        }
        let why = format!("{why:?}, and no other call held the lock since it asked");
        self.broken(Invariant::TruthfulRefusal, [call], why);
    }

    /// Returns whether the last holder's lease may not have seemed over: it was not released, and a client that has to
    /// estimate the server's time takes it for held until that time is surely past its end.
    fn seems_held(&self, call: CallId) -> bool {
        let Call { lock, asked, .. } = self.calls[call];
        let Lock { last_holder, waiting, .. } = &self.locks[lock];
        let ran_out = last_holder.is_some_and(|last| !self.calls[last].released);
        let registers = self.disturbances.is_of(FamilyName::Register);
        registers && ran_out && asked <= waiting.holder_since + at_most(micros(LONGEST_TTL))
    }

    /// Records that this call was answered: what other calls of its process saw before that may be out of date.
    pub(super) fn gives_way(&mut self, call: CallId) {
        let Call { client, lock, .. } = self.calls[call];
        self.locks[lock].turns.insert(client, self.at);
    }

    /// Checks a refusal as unavailable. It is right if the servers were disturbed, or a majority of them. A disturbance
    /// shortly before the call counts, too.
    fn is_in_trouble(&mut self, call: CallId) {
        self.could(Invariant::TruthfulRefusal);
        let Call { client, asked, .. } = self.calls[call];
        let from = asked.saturating_sub(self.recovers_within());
        // One silent server of several delays each refusal by as long as a patient client waits for a node.
        let trouble = match self.at - asked < FOR_A_SILENT_NODE {
            true => self.disturbances.without_any(client),
            false => self.disturbances.without_a_majority(client),
        };
        // A second copy of an earlier try's request takes votes from the next try, even if the earlier try was released
        // before.
        let several = self.disturbances.servers() > 1;
        let trouble = if several { trouble.max(self.disturbances.twice[client]) } else { trouble };
        let looks_in_trouble =
            several && !undisturbed(self.disturbances.without_any(client), self.at.saturating_sub(LOOK));
        if !undisturbed(trouble, from) || looks_in_trouble {
            return;
        }
        if self.turn_has_just_come(call) || self.is_refused_by_a_clock(call) {
            return self.excused(Invariant::TruthfulRefusal);
        }
        self.broken(Invariant::TruthfulRefusal, [call], "unavailable, and nothing had gone wrong");
    }

    /// Returns for how long a disturbance may be felt. It may have cost the client its session, which the client may still
    /// be replacing, or its connection for wake-ups.
    fn recovers_within(&self) -> u64 {
        match self.disturbances.is_of(FamilyName::Register) {
            true => NEXT_FEED,
            false => micros(LONGEST_TTL),
        }
    }

    /// Returns whether the call before it in its process was answered only now, so that the server had no time to
    /// answer this one.
    fn turn_has_just_come(&self, call: CallId) -> bool {
        let Call { client, lock, .. } = self.calls[call];
        self.locks[lock].turns.get(&client).is_some_and(|turn| self.at - turn < JUST_NOW)
    }

    /// Returns whether the server refuses this call, or the call before it in its process, because an attempt of that call
    /// was revoked. The server does so until its clock, which was set back, has caught up.
    fn is_refused_by_a_clock(&self, call: CallId) -> bool {
        let Call { client, lock, .. } = self.calls[call];
        let set_back = self.disturbances.set_back;
        let Lock { asking, revoked, .. } = &self.locks[lock];
        let is_over = self.at > revoked + at_most(set_back) + micros(LONGEST_TTL);
        let is_of_it = |other: &CallId| *other <= call && self.calls[*other].client == client;
        let mut refused = asking.iter().chain([&call]).filter(|other| is_of_it(other));
        set_back > 0 && !is_over && refused.any(|other| self.may_be_revoked(*other))
    }

    /// Returns whether one of several servers may have held the lock for an earlier try of this same call: the server
    /// released that try, and then received a second copy of its request.
    fn stood_behind_itself(&self, call: CallId) -> bool {
        let Call { client, asked, .. } = self.calls[call];
        self.disturbances.servers() > 1 && !undisturbed(self.disturbances.twice[client], asked)
    }

    /// Returns whether another call of its process was before it until its wait ended, or until the look with which its
    /// wait ended. A call that was cancelled, or gave up, is before it until its own attempts are settled.
    fn stood_behind_another(&self, call: CallId) -> bool {
        let Call { client, lock, asked, .. } = self.calls[call];
        let lock = &self.locks[lock];
        let is_before = |other: &CallId| *other < call && self.calls[*other].client == client;
        if lock.asking.iter().any(|other| is_before(other) && self.calls[*other].waits_until.is_some()) {
            return true;
        }
        let Some(turn) = lock.turns.get(&client).copied() else { return false };
        let lease = micros(LONGEST_TTL);
        match undisturbed(self.disturbances.without_any(client), turn.saturating_sub(lease)) {
            true => turn >= asked && self.at - turn < FIRST_ANSWER + LOOK,
            // A process that stood still settles nothing meanwhile.
            false => self.at - turn.max(self.disturbances.stops[client]) < FIRST_ANSWER + LOOK + lease,
        }
    }

    /// Returns whether a call other than `call` has the lock, or may have it. `client` is the client of `call`.
    pub(super) fn may_be_held(&self, lock: LockId, client: usize, call: CallId) -> bool {
        let lock = &self.locks[lock];
        // When a process goes on after a stop, many things happen at the same time.
        let until_now = lock.ended.get(&client) == Some(&self.at);
        let has = lock.holder.iter().chain(&lock.parts).any(|holder| *holder != call);
        until_now || lock.claims.contains(&client) || has
    }

    /// Records which calls have the lock on any server. If several candidates meet, each may have a part, and none a
    /// majority.
    pub(super) fn parts_are(&mut self, lock: LockId, calls: &[CallId]) {
        self.locks[lock].parts = calls.to_vec();
        self.have_it(lock, calls);
    }

    pub(super) fn holder_is(&mut self, lock: LockId, holder: Option<CallId>) {
        self.locks[lock].holder = holder;
        self.locks[lock].waiting.holder_since = self.at;
        self.have_it(lock, holder.as_slice());
        let Some(holder) = holder else { return };
        if let Some(last) = self.locks[lock].last_holder.replace(holder).filter(|last| *last != holder) {
            self.call(last).was_anothers = true;
        }
        self.has_it_again(holder);
        self.is_next(lock, holder);
    }

    /// Records for every other call that these calls have the lock, or a part of it.
    fn have_it(&mut self, lock: LockId, calls: &[CallId]) {
        self.held_by_another(lock);
        let has_another = |call: &CallId| calls.iter().any(|other| other != call);
        for asking in &self.locks[lock].asking {
            self.calls[*asking].saw_another |= has_another(asking);
        }
        for open in &self.locks[lock].open {
            self.calls[*open].was_anothers |= has_another(open);
        }
    }

    /// A client has a claim. As far as its process knows, the claim may hold the lock until its release is answered,
    /// and callers that wait behind it in that process are told so.
    pub(super) fn claim_begins(&mut self, Claim { client, lock }: Claim) {
        self.locks[lock].claims.push(client);
        for asking in &self.locks[lock].asking {
            let call = &mut self.calls[*asking];
            call.saw_another |= call.client == client;
        }
    }

    pub(super) fn claim_ends(&mut self, Claim { client, lock }: Claim) {
        self.locks[lock].ended.insert(client, self.at);
        self.locks[lock].turns.insert(client, self.at);
        let claims = &mut self.locks[lock].claims;
        if let Some(at) = claims.iter().position(|claim| *claim == client) {
            claims.swap_remove(at);
        }
    }
}
