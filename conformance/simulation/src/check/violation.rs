//! The promises, and what it looks like when one is broken.

use std::fmt;

use crate::ids::CallId;
use crate::log::{Entry, What};
use crate::named::named;
use crate::rules::FamilyName;

named! {
    /// A promise of the library, by its number in docs/simulation.md.
    pub enum Invariant {
        /// I1. The resource takes writes in the order of their tokens, never refuses the holder's writes, and no two
        /// acquisitions have the same token.
        FencedExclusion = "I1  fenced exclusion",
        /// I2. A call that was granted the lock before another call asked for it has the lower token.
        TokenOrder = "I2  token order",
        /// I3. No two guards of one lock say at the same time that they are held.
        Exclusion = "I3  exclusion in time",
        /// I4. A holder is told of a loss at its guard's own deadline at the latest, and before another call is granted
        /// the lock.
        LossInTime = "I4  loss told in time",
        /// I5. A waiter has the lock soon after nothing prevents it any more.
        Liveness = "I5  waiters are served",
        /// I6. Callers that are done leave nothing on the server.
        NoOrphan = "I6  nothing left behind",
        /// I7. "Busy" and "timeout" are said only if another call held the lock, or may have held it, during the call,
        /// and "unavailable" only if the servers were unavailable.
        TruthfulRefusal = "I7  truthful refusals",
        /// I8. Where the server keeps places, they are served in the order in which they were taken.
        Order = "I8  in their order",
        /// I9. A lock that is released goes to a waiter at once.
        WokenUp = "I9  woken up",
        /// I10. A release ends its own hold or nothing. "Released" is said only if it ended one, and "expired" only if
        /// there was none, or if the answer was lost.
        HonestRelease = "I10 honest releases",
        /// A loss has a reason, and its holder is told that reason.
        Reasons = "    losses have reasons",
        /// `max_hold` and a fixed lease end a hold in time, and `min_hold` keeps it from ending sooner.
        Terms = "    terms kept",
        /// Every call ends, and nothing is left of a client that is shut down.
        Ends = "    everything ends",
    }
}

impl Invariant {
    /// Returns whether histories of this family can break it.
    pub fn can_be_broken_in(self, family: FamilyName) -> bool {
        match self {
            // The others keep no places.
            Invariant::Order => family == FamilyName::Queue,
            _ => true,
        }
    }

    /// Returns how often it may be excused at this many opportunities: about twice as often as in a hundred thousand
    /// histories, and a few times even in a few histories.
    pub fn excused_at_most(self, family: FamilyName, opportunities: u64) -> u64 {
        let [lease, queue, redlock] = match self {
            Invariant::Exclusion => [120, 40, 8],
            Invariant::LossInTime => [60, 20, 4],
            Invariant::NoOrphan => [4, 8, 2],
            Invariant::TruthfulRefusal => [1, 1, 1],
            Invariant::HonestRelease => [16, 12, 1],
            _ => return 0,
        };
        let of_a_thousand = match family {
            FamilyName::Lease | FamilyName::Register => lease,
            FamilyName::Queue => queue,
            FamilyName::Redlock => redlock,
        };
        EXCUSED_AT_LEAST + opportunities * of_a_thousand / 1000
    }
}

/// So few excuses show nothing.
const EXCUSED_AT_LEAST: u64 = 10;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub invariant: Invariant,
    /// The calls that it is about.
    pub calls: Vec<CallId>,
    /// A description of how the log shows it.
    pub message: String,
    /// The index of the log entry at which it showed.
    pub index: usize,
}

impl Violation {
    /// Returns the entries of the log that are needed to understand it.
    pub fn slice<'a>(&self, log: &'a [Entry]) -> Vec<&'a Entry> {
        let concerns = |entry: &&Entry| self.calls.iter().any(|call| entry.what.concerns(*call));
        let upto = &log[..log.len().min(self.index + 1)];
        let asked =
            |entry: &Entry| matches!(entry.what, What::Asked { call, .. } if self.calls.contains(&call));
        let first = upto.iter().position(asked).unwrap_or(upto.len().saturating_sub(40));
        let faults =
            upto[..first].iter().filter(|entry| matches!(entry.what, What::Begins(_) | What::Over(_)));
        let all = self.calls.is_empty();
        faults.chain(upto[first..].iter().filter(|entry| all || concerns(entry))).collect()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.to_string().trim_start(), self.message)
    }
}
