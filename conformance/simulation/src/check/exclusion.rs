//! I3 and I4: no guard says that it is held after another call was granted the lock, and each holder is told of its
//! loss before that.

use super::disturbances::undisturbed;
use super::losses::TOLD_LATE;
use super::{Call, Checker, Invariant};
use crate::clocks::at_most;
use crate::ids::CallId;
use crate::rules::FamilyName;
use crate::setting::{IN_TIME, LONGEST_TTL};
use crate::timeline::micros;

impl Checker {
    /// This call was granted the lock: checks that each earlier holder has been told.
    pub(super) fn succeeds(&mut self, call: CallId) {
        if self.locks[self.calls[call].lock].highest_token.is_some() {
            self.could(Invariant::Exclusion);
            self.could(Invariant::LossInTime);
        }
        for open in self.locks[self.calls[call].lock].open.clone() {
            // In most cases the new call comes after the other one. But its grant may arrive late, after the next
            // grant.
            let is_successor = self.calls[call].token > self.calls[open].token;
            let (stale, successor) = if is_successor { (open, call) } else { (call, open) };
            self.calls[stale].succeeded_by.get_or_insert(successor);
            self.is_granted_before_told(stale, successor);
        }
    }

    /// Reports a holder that was not told. A process that stands still can't be told; its guard must show the loss at
    /// the next look, which `holds_alone` checks.
    fn is_granted_before_told(&mut self, untold: CallId, call: CallId) {
        let stands = self.at <= self.disturbances.stops[self.calls[untold].client];
        if !stands {
            let why = format!("call {untold} was not told before call {call} was granted the lock");
            self.broken_in_time(Invariant::LossInTime, [untold, call], why);
        }
    }

    pub(super) fn holds_alone(&mut self, call: CallId) {
        let Some(successor) = self.calls[call].succeeded_by else { return };
        let why = format!("call {call} believes that it holds after call {successor} was granted the lock");
        self.broken_in_time(Invariant::Exclusion, [call, successor], why);
    }

    /// The server has this call as the holder, perhaps again. If the call after it no longer holds the lock, this one
    /// has no successor.
    pub(super) fn has_it_again(&mut self, call: CallId) {
        let Some(known) = self.calls.get(call) else { return };
        if known.succeeded_by.is_some_and(|successor| !self.locks[known.lock].open.contains(&successor)) {
            self.calls[call].succeeded_by = None;
        }
    }

    pub(super) fn is_granted_in_time(&mut self, call: CallId, late: bool) {
        if late {
            self.broken(Invariant::LossInTime, [call], "granted when its lease had ended already");
        }
    }

    pub(super) fn told(&mut self, call: CallId, late: u64) {
        self.closes(call);
        self.could(Invariant::LossInTime);
        if late > TOLD_LATE {
            self.broken(Invariant::LossInTime, [call], format!("told {late} us after its deadline"));
        }
    }

    /// A revoked lock was given back before its deadline, and may be another call's: checks that its holder has
    /// stopped.
    pub(super) fn given_back(&mut self, call: CallId) {
        self.could(Invariant::LossInTime);
        let works = self.calls[call].works_until.is_some_and(|until| self.at < until);
        if works && !self.killed.contains(&self.calls[call].client) {
            let why = format!("what was revoked from call {call} was given back while its work went on");
            self.broken(Invariant::LossInTime, [call], why);
        }
    }

    /// Reports a violation; or an excuse, if a server was made to end early what one of these calls relies on.
    fn broken_in_time(&mut self, invariant: Invariant, calls: [CallId; 2], message: String) {
        let [stale, successor] = calls;
        if self.is_shortened(stale) || self.rests_on_ended_votes(successor) {
            return self.excused(invariant);
        }
        self.broken(invariant, calls, message);
    }

    /// Returns whether a call may still rely on a grant that the server has ended. It may until its next renewal, whose
    /// answer shows the end. If that renewal or the one before it is not answered normally, or there is none, it may
    /// until the lease would have ended.
    fn is_shortened(&self, call: CallId) -> bool {
        let Some(Shortened { token, at, until }) = self.calls[call].shortened else { return false };
        let Call { token: own, client, granted, .. } = self.calls[call];
        let hears = |pause| {
            // A renewal that was sent a third of the ttl before that may still wait for its answer.
            undisturbed(self.disturbances.without_any(client), at + 1)
                && undisturbed(self.disturbances.unanswered[client], (at + 1).saturating_sub(pause))
        };
        let renewed = match (self.renews_every(call), granted) {
            (Some(pause), Some(granted)) if hears(pause) => at.max(granted) + pause + 2 * IN_TIME,
            _ => until,
        };
        own <= token && self.at <= until.min(renewed)
    }

    /// Returns whether a call was granted the lock by votes of several servers, some of which had been ended before the
    /// last was given, and may still rely on them. Its token may be higher than that of the holder that the servers
    /// have.
    fn rests_on_ended_votes(&self, call: CallId) -> bool {
        let Call { shortened: Some(Shortened { at, .. }), granted: Some(granted), .. } = self.calls[call]
        else {
            return false;
        };
        self.disturbances.servers() > 1 && at <= granted && self.is_shortened(call)
    }

    /// Returns the longest time until a holder's next renewal; none if the holder doesn't renew by itself. A session's
    /// proof that is younger than a third of the ttl counts as a renewal, too. What has happened since then shows a
    /// sixth of the remaining two thirds later.
    fn renews_every(&self, call: CallId) -> Option<u64> {
        let Call { terms, by_hand, .. } = &self.calls[call];
        let terms = terms.filter(|terms| !terms.fixed)?;
        // The pause depends on the ttl that was asked for last.
        let ttl = if *by_hand { LONGEST_TTL } else { terms.ttl };
        let ninths = if self.disturbances.is_of(FamilyName::Queue) { 4 } else { 3 };
        Some(at_most(micros(ttl) / 9 * ninths))
    }
}

/// A grant that the server has ended, or may have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortened {
    /// The highest token that it may have.
    pub(super) token: u64,
    /// When the server ended it.
    pub(super) at: u64,
    /// When it would have ended by itself.
    pub(super) until: u64,
}
