//! Losses: a holder is told at its guard's deadline at the latest, a loss has a reason, and its holder is told that
//! reason.

use lock_core::LossReason;

use super::disturbances::undisturbed;
use super::{Call, Checker, Invariant};
use crate::clocks::{at_least, at_most};
use crate::ids::CallId;
use crate::rules::FamilyName;
use crate::setting::LONGEST_TTL;
use crate::timeline::micros;

/// A guard may say that it is lost at most this long after its deadline, in microseconds: clocks are rounded by that.
pub(super) const TOLD_LATE: u64 = 10;

impl Checker {
    /// A guard says how long it is certain to be held.
    pub(super) fn is_certain(&mut self, call: CallId, left: u64) {
        self.calls[call].certain_until = Some(self.at + at_most(left));
    }

    /// Time goes on to `at`: reports each guard whose deadline has passed, and whose holder has not been told.
    pub(super) fn is_told_by(&mut self, at: u64) {
        let open: Vec<CallId> = self.locks.iter().flat_map(|lock| lock.open.iter().copied()).collect();
        for call in open {
            let Call { client, certain_until: Some(until), .. } = self.calls[call] else { continue };
            // A machine that stood still is told when it goes on.
            if at > until.max(self.disturbances.stops[client]) + TOLD_LATE {
                self.calls[call].certain_until = None;
                let why = format!(
                    "call {call} was certain until {until} us, and was not told that it lost the lock"
                );
                self.broken(Invariant::LossInTime, [call], why);
            }
        }
    }

    /// Checks the cause that a holder was told, `left` microseconds before its guard's deadline.
    pub(super) fn has_a_reason(&mut self, call: CallId, cause: LossReason, left: u64) {
        self.could(Invariant::Reasons);
        if let Err(why) = self.reason(call, cause, left) {
            self.broken(Invariant::Reasons, [call], format!("told {cause:?}, and {why}"));
        }
    }

    fn reason(&self, call: CallId, cause: LossReason, left: u64) -> Result<(), &'static str> {
        let known = &self.calls[call];
        let terms = known.terms;
        let no_sessions = self.disturbances.rules.is_some_and(|rules| rules.family != FamilyName::Queue);
        match cause {
            LossReason::Expired if left > 0 => Err("its lease was not over"),
            LossReason::Expired if terms.is_some_and(|terms| terms.fixed) => Ok(()),
            LossReason::MaxHold => match terms.and_then(|terms| terms.max_hold) {
                Some(most) if self.at - known.asked >= at_least(micros(most)) => Ok(()),
                Some(_) => Err("it was not held for so long"),
                None => Err("it has no end"),
            },
            LossReason::Revoked if self.may_be_revoked(call) => Ok(()),
            LossReason::Revoked => Err("no caller has revoked it"),
            LossReason::Session if no_sessions => Err("there are no sessions"),
            LossReason::Taken if !known.was_anothers => Err("no other call has had it"),
            LossReason::Expired | LossReason::Taken | LossReason::Gone | LossReason::Session => {
                self.may_be_lost(call).then_some(()).ok_or("nothing had gone wrong")
            }
            _ => Err("nothing that renews it has ended"),
        }
    }

    /// Returns whether a lock that is renewed in time can be lost: something was disturbed since its last renewal that
    /// succeeded.
    pub(super) fn may_be_lost(&self, call: CallId) -> bool {
        let since = self.at.saturating_sub(at_most(micros(LONGEST_TTL)));
        self.calls[call].shortened.is_some() || !self.was_undisturbed(call, since)
    }

    /// Returns whether this call's lock may have been revoked. A revoke is logged before the revoking caller has looked
    /// at the lock.
    pub(super) fn may_be_revoked(&self, call: CallId) -> bool {
        let Call { lock, asked, .. } = self.calls[call];
        !undisturbed(self.locks[lock].revoked, asked.saturating_sub(2 * micros(LONGEST_TTL)))
    }
}
