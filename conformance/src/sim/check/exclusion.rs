//! I3 and I4: nobody believes in a lock that is another one's, and everybody is told before it is.

use super::{Checker, Invariant};
use crate::sim::log::CallId;

/// How much later than its own deadline a holder may be told: what clocks are rounded to.
const TOLD_LATE: u64 = 10;

impl Checker {
    /// This call was granted the lock: whoever had it before has been told.
    pub(super) fn succeeds(&mut self, call: CallId) {
        if self.locks[self.calls[call].lock].highest_token.is_some() {
            self.could(Invariant::Exclusion);
        }
        for open in self.locks[self.calls[call].lock].open.clone() {
            self.calls[open].succeeded_by.get_or_insert(call);
            self.is_granted_before_told(open, call);
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

    /// Broken, unless the server has been made to end what one of them was granted before its time.
    fn broken_in_time(&mut self, invariant: Invariant, calls: [CallId; 2], message: String) {
        match calls.into_iter().any(|call| self.is_shortened(call)) {
            true => self.verdict.excused += 1,
            false => self.broken(invariant, calls.to_vec(), message),
        }
    }

    fn is_shortened(&self, call: CallId) -> bool {
        let call = &self.calls[call];
        call.shortened.is_some_and(|shortened| call.token <= shortened)
    }
}
