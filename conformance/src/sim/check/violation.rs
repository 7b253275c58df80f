//! The promises, and what it looks like when one is broken.

use std::fmt;

use crate::sim::history::FamilyName;
use crate::sim::log::{CallId, Entry, What};

/// What the library promises, by its number in the documentation of the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// I1. The resource takes writes in the order of their tokens, never refuses the holder's, and no two acquisitions
    /// have one token.
    FencedExclusion,
    /// I2. Who was granted the lock before another one asked for it has the lower token.
    TokenOrder,
    /// I3. No two guards believe at the same time that they are held.
    Exclusion,
    /// I4. A loss is told at the guard's own deadline at the latest, and before another one is granted the lock.
    LossInTime,
    /// I5. When nothing is in the way of one who waits any more, it has the lock soon.
    Liveness,
    /// I6. Nothing is left on the server of callers that are done.
    NoOrphan,
    /// I7. "Busy" and "timeout" are said only if another one held the lock, or may have, during the call, and
    /// "unavailable" only if the servers were.
    TruthfulRefusal,
    /// I8. Where the server keeps places, they are served in the order in which they were taken.
    Order,
    /// I9. A lock that is released is a waiter's at once.
    WokenUp,
    /// I10. A release ends its own hold or nothing; "released" is said only if it ended one, and "expired" only if there was
    /// none, or the answer was lost.
    HonestRelease,
    /// A loss has a reason, and is told with that one.
    Reasons,
    /// `max_hold` and a fixed lease end a hold in time, and `min_hold` doesn't let it end sooner.
    Terms,
    /// Every call ends, and nothing is left of a client that is shut down.
    Ends,
}

impl Invariant {
    /// All of them, in the order of reports.
    pub const ALL: [Invariant; 13] = [
        Invariant::FencedExclusion,
        Invariant::TokenOrder,
        Invariant::Exclusion,
        Invariant::LossInTime,
        Invariant::Liveness,
        Invariant::NoOrphan,
        Invariant::TruthfulRefusal,
        Invariant::Order,
        Invariant::WokenUp,
        Invariant::HonestRelease,
        Invariant::Reasons,
        Invariant::Terms,
        Invariant::Ends,
    ];

    /// Whether histories of this family can break it.
    pub fn can_be_broken_in(self, family: FamilyName) -> bool {
        match self {
            // The others keep no places.
            Invariant::Order => family == FamilyName::Queue,
            _ => true,
        }
    }

    /// How often of so many opportunities it may be excused: about twice as often as in a hundred thousand histories, and
    /// a few times in a few.
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
            FamilyName::Lease => lease,
            FamilyName::Queue => queue,
            FamilyName::Redlock => redlock,
        };
        EXCUSED_AT_LEAST + opportunities * of_a_thousand / 1000
    }
}

/// So few excuses say nothing.
const EXCUSED_AT_LEAST: u64 = 10;

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Invariant::FencedExclusion => "I1  fenced exclusion",
            Invariant::TokenOrder => "I2  token order",
            Invariant::Exclusion => "I3  exclusion in time",
            Invariant::LossInTime => "I4  loss told in time",
            Invariant::Liveness => "I5  waiters are served",
            Invariant::NoOrphan => "I6  nothing left behind",
            Invariant::TruthfulRefusal => "I7  truthful refusals",
            Invariant::Order => "I8  in their order",
            Invariant::WokenUp => "I9  woken up",
            Invariant::HonestRelease => "I10 honest releases",
            Invariant::Reasons => "    losses have reasons",
            Invariant::Terms => "    terms kept",
            Invariant::Ends => "    everything ends",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The calls that it is about.
    pub calls: Vec<CallId>,
    /// How it shows.
    pub message: String,
    /// At which entry of the log.
    pub index: usize,
}

impl Violation {
    /// The entries of the log that it takes to understand it.
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
