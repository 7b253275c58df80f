//! I7: nobody is refused because of a holder that there is not.

use super::{Checker, Invariant};
use crate::sim::log::{CallId, LockId, Why};

impl Checker {
    pub(super) fn not_granted(&mut self, call: CallId, why: Why) {
        let lock = self.calls[call].lock;
        self.locks[lock].asking.retain(|asking| *asking != call);
        match why {
            Why::Busy | Why::Timeout => {
                self.could(Invariant::TruthfulRefusal);
                if !self.calls[call].saw_another {
                    let why = format!("{why:?}, and nobody else held the lock since it asked");
                    self.broken(Invariant::TruthfulRefusal, vec![call], why);
                }
            }
            Why::Unexpected => {
                self.broken(Invariant::TruthfulRefusal, vec![call], "an error without a reason".to_owned());
            }
            Why::Unavailable | Why::Lost | Why::Cancelled => {}
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
        for asking in &self.locks[lock].asking {
            self.calls[*asking].saw_another |= calls.iter().any(|call| call != asking);
        }
    }

    pub(super) fn holder_is(&mut self, lock: LockId, holder: Option<CallId>) {
        self.locks[lock].holder = holder;
        let Some(holder) = holder else { return };
        for asking in &self.locks[lock].asking {
            self.calls[*asking].saw_another |= *asking != holder;
        }
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
        let claims = &mut self.locks[lock].claims;
        if let Some(at) = claims.iter().position(|claim| *claim == client) {
            claims.swap_remove(at);
        }
    }
}
