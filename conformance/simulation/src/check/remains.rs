//! I6: nothing is left of callers that are done.

use super::disturbances::undisturbed;
use super::{Checker, Invariant};
use crate::ids::{CallId, LockId};
use crate::setting::NAMES;

impl Checker {
    /// A client has shut down: checks that the server has no lock and no place of it. That is excused if a message came
    /// twice or late within a lease: it may have taken a lock since, for one lease. And of several servers, the last
    /// one may not have been reached yet.
    pub(super) fn leaves_nothing(&mut self, client: usize) {
        let since = self.at.saturating_sub(self.disturbances.longest_lease());
        let late = self.disturbances.without_any(client).max(self.disturbances.twice[client]);
        for lock in 0..NAMES.len() {
            self.could(Invariant::NoOrphan);
            let has = &self.locks[lock];
            let there = has.holder.iter().chain(&has.places);
            // A call that has revoked a lock (it has no terms) keeps what is left of the lease until the revoked holder
            // has stopped.
            let own = |call: &&CallId| {
                self.calls.get(**call).is_some_and(|known| known.client == client && known.terms.is_some())
            };
            let Some(call) = there.copied().filter(|call| own(&call)).min() else { continue };
            match undisturbed(late, since) {
                true => {
                    let why = format!("client {client} has shut down, and the server has call {call}");
                    self.broken(Invariant::NoOrphan, [call], why);
                }
                false => self.excused(Invariant::NoOrphan),
            }
        }
    }

    /// All clients are done, and what may still have been under way is over: checks that nothing is left.
    pub(super) fn remains(&mut self, lock: LockId, calls: &[CallId]) {
        self.could(Invariant::NoOrphan);
        if !calls.is_empty() {
            let why = "all are done and every lease is over, and the server has calls";
            self.broken(Invariant::NoOrphan, calls, format!("lock {lock}: {why} {calls:?}"));
        }
    }
}
