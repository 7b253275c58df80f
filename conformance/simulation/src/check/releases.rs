//! I10: a release ends its own hold or nothing, and says which.

use lock_core::Ending;

use super::{Call, Checker, Invariant};
use crate::clocks::at_least;
use crate::ids::CallId;
use crate::rules::FamilyName;
use crate::setting::LONGEST_TTL;
use crate::timeline::micros;

/// The lock as a release that was asked for found it when the release first arrived at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Its,
    NotIts,
}

impl Checker {
    pub(super) fn ended(&mut self, call: CallId, ending: Ending) {
        self.could(Invariant::HonestRelease);
        match ending {
            Ending::Released if self.calls[call].released || self.a_majority_released(call) => {}
            // A node's first answer may have been lost. When the node is asked again, it releases what an older state
            // of its data, or a clock that was set back, has brought back meanwhile. No client can tell that from what
            // the node had all the time.
            Ending::Released if self.was_restored_since(call) || self.was_over_by_the_clock_alone(call) => {
                self.excused(Invariant::HonestRelease);
            }
            Ending::Released => {
                let why = "said to be released, and the server did not have it any more";
                self.broken(Invariant::HonestRelease, [call], why);
            }
            Ending::Expired => self.is_over(call),
        }
    }

    /// Returns whether a majority of several servers each ended its part of this hold when the first release came there.
    /// They need not have had it at one time: one may have lost its vote before another gave its own.
    fn a_majority_released(&self, call: CallId) -> bool {
        let majority = self.disturbances.servers() / 2 + 1;
        self.calls[call].parts_released.values().any(|released| released.len() >= majority)
    }

    /// Returns whether a server was given an older state of its data since this hold was let go.
    fn was_restored_since(&self, call: CallId) -> bool {
        self.calls[call].let_go.is_some_and(|(at, _)| self.disturbances.restored >= at.max(1))
    }

    /// Returns whether this hold was over only because a clock was set forward, and no other call was granted the lock
    /// before its guard was let go. On a register, the release then replaces the row of its own hold, which shows that no
    /// other call had the lock since. Where the answer does not tell its stamp, a client can't tell that from a release in
    /// time.
    fn was_over_by_the_clock_alone(&self, call: CallId) -> bool {
        let Call { succeeded_by, ref shortened, .. } = self.calls[call];
        self.disturbances.is_of(FamilyName::Register) && shortened.is_some() && succeeded_by.is_none()
    }

    /// Checks a release that was answered with `Expired`: the hold was over, or nothing more could be known of it.
    fn is_over(&mut self, call: CallId) {
        let Call { let_go: Some((at, left)), found, lost, .. } = self.calls[call] else { return };
        // The hold may have been over by the time of the answer.
        if self.at >= at + at_least(left) {
            return;
        }
        // The hold may have been ended before the guard was let go, without its holder being told yet.
        let lease = at.saturating_sub(micros(LONGEST_TTL));
        let (since, why) = match found {
            _ if lost || self.calls[call].shortened.is_some() || self.may_be_revoked(call) => return,
            Some(Found::Its) => (at, "the server gave up its hold"),
            Some(Found::NotIts) => (lease, "nothing had ended its hold"),
            None => (at, "no release came to the server"),
        };
        // If a release arrives twice, the first answer that is received counts, and that may be the one to the second
        // copy.
        let once = self.disturbances.twice[self.calls[call].client] < at;
        if !once || !self.was_undisturbed(call, since) {
            return self.excused(Invariant::HonestRelease);
        }
        self.broken(Invariant::HonestRelease, [call], format!("said to have expired, and {why}"));
    }

    /// Before its guard is let go, a call releases only tries that became no hold.
    pub(super) fn part_released(&mut self, call: CallId, grant: u64, server: usize) {
        let known = self.call(call);
        if known.let_go.is_some() {
            known.parts_released.entry(grant).or_default().insert(server);
        }
    }

    pub(super) fn release_arrived(
        &mut self,
        of: Option<CallId>,
        before: Option<CallId>,
        after: Option<CallId>,
    ) {
        let ends_its_own = of == before && before != after;
        if let Some(of) = of {
            let found = if ends_its_own { Found::Its } else { Found::NotIts };
            let known = self.call(of);
            if known.let_go.is_some() {
                known.found.get_or_insert(found);
            }
            known.released |= ends_its_own;
        }
        if ends_its_own {
            self.is_announced(of);
            of.into_iter().for_each(|call| self.is_held_long_enough(call));
            return;
        }
        self.could(Invariant::HonestRelease);
        if let Some(before) = before
            && Some(before) != after
            && of != Some(before)
        {
            let calls: Vec<CallId> = of.into_iter().chain([before]).collect();
            self.broken(
                Invariant::HonestRelease,
                calls,
                format!("a release ended the hold of call {before}"),
            );
        }
    }
}
