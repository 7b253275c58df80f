//! I3 and I4: nobody believes in a lock that is another one's, and everybody is told before it is.

use super::terms::at_most;
use super::{Call, Checker, Invariant};
use crate::sim::LONGEST_TTL;
use crate::sim::log::CallId;
use crate::sim::tally::micros;

/// How much later than its own deadline a holder may be told: what clocks are rounded to.
const TOLD_LATE: u64 = 10;

impl Checker {
    /// This call was granted the lock: whoever had it before has been told.
    pub(super) fn succeeds(&mut self, call: CallId) {
        if self.locks[self.calls[call].lock].highest_token.is_some() {
            self.could(Invariant::Exclusion);
        }
        for open in self.locks[self.calls[call].lock].open.clone() {
            // In most cases the new one is the heir. But a grant may come late, after the next one.
            let is_heir = self.calls[call].token > self.calls[open].token;
            let (stale, heir) = if is_heir { (open, call) } else { (call, open) };
            self.calls[stale].succeeded_by.get_or_insert(heir);
            self.is_granted_before_told(stale, heir);
        }
    }

    /// The one who stands still can't be told: its guard says so as soon as it looks, which is checked there.
    fn is_granted_before_told(&mut self, untold: CallId, call: CallId) {
        let client = self.calls[untold].client;
        let stands = self.stopped.iter().any(|(stopped, until)| *stopped == client && self.at <= *until);
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

    pub(super) fn is_granted_in_time(&mut self, call: CallId, late: bool) {
        if late {
            let why = "granted when its lease had ended already".to_owned();
            self.broken(Invariant::LossInTime, vec![call], why);
        }
    }

    pub(super) fn told(&mut self, call: CallId, late: u64) {
        self.closes(call);
        self.could(Invariant::LossInTime);
        if late > TOLD_LATE {
            let why = format!("told {late} us after its deadline");
            self.broken(Invariant::LossInTime, vec![call], why);
        }
    }

    /// A lock that was revoked is given back before its time, and may be another's: its holder has stopped.
    pub(super) fn given_back(&mut self, call: CallId) {
        self.could(Invariant::LossInTime);
        let works = self.calls[call].works_until.is_some_and(|until| self.at < until);
        if works && !self.killed.contains(&self.calls[call].client) {
            let why = format!("what was revoked from call {call} was given back while its work went on");
            self.broken(Invariant::LossInTime, vec![call], why);
        }
    }

    /// Broken, unless the server has been made to end what the first of them was granted before its time.
    fn broken_in_time(&mut self, invariant: Invariant, calls: [CallId; 2], message: String) {
        match self.is_excused(calls[0]) {
            true => self.verdict.excused += 1,
            false => self.broken(invariant, calls.to_vec(), message),
        }
    }

    /// Whether a call may believe in what the server has ended. Once its lease is over it may not: no renewal of it can
    /// have succeeded, unless the server has given it the lock again.
    fn is_excused(&self, call: CallId) -> bool {
        let Call { shortened: Some((shortened, at)), token, lock, .. } = self.calls[call] else {
            return false;
        };
        let over = at + at_most(micros(LONGEST_TTL)) + self.set_back;
        token <= shortened && (self.at <= over || self.locks[lock].holder == Some(call))
    }
}
