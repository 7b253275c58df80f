//! I8: where the server keeps places, they are served in the order in which they were taken.

use std::collections::BTreeMap;

use super::{Checker, Invariant};
use crate::ids::{CallId, LockId};
use crate::setting::LONGEST_TTL;
use crate::timeline::micros;

/// The places in the queue of a lock. By call: the number of its place, of all places that were taken.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: BTreeMap<CallId, u64>,
    taken: u64,
}

impl Checker {
    pub(super) fn places_are(&mut self, lock: LockId, calls: &[CallId]) {
        self.locks[lock].places = calls.to_vec();
        let line = &mut self.locks[lock].line;
        let gone: Vec<CallId> = line.places.keys().copied().filter(|call| !calls.contains(call)).collect();
        line.places.retain(|call, _| calls.contains(call));
        for call in calls {
            // A client that revokes a lock has its holder's place, but doesn't want the lock.
            if self.calls.get(*call).is_some_and(|known| known.waits_until.is_some())
                && !line.places.contains_key(call)
            {
                line.taken += 1;
                line.places.insert(*call, line.taken);
            }
        }
        gone.into_iter().for_each(|call| self.loses_its_place(lock, call));
    }

    /// Checks that a call that still waits loses its place only with its session.
    fn loses_its_place(&mut self, lock: LockId, call: CallId) {
        let asks = self.locks[lock].asking.contains(&call) && self.still_waits(call, self.at);
        let since = self.at.saturating_sub(micros(LONGEST_TTL));
        if asks && !self.may_be_revoked(call) && self.was_undisturbed(call, since) {
            self.broken(Invariant::Order, [call], format!("call {call} waits, and its place is gone"));
        }
    }

    /// The server has a new holder: checks that no place is left that was taken before that holder's.
    pub(super) fn is_next(&mut self, lock: LockId, call: CallId) {
        let line = &self.locks[lock].line.places;
        let Some(own) = line.get(&call) else { return };
        let before = line.iter().find(|(_, place)| *place < own).map(|(before, _)| *before);
        if line.len() > 1 || before.is_some() {
            self.could(Invariant::Order);
        }
        if let Some(before) = before {
            let why = format!("call {call} has the lock, and call {before} has waited for longer");
            self.broken(Invariant::Order, [before, call], why);
        }
    }
}
