//! The leases that faults made servers end early: the holder of each, and until when it may still rely on it.
//!
//! With several servers, an early end on one of them matters only to a holder that needs this server: one that has no
//! majority among the servers that were not touched.

use std::collections::BTreeSet;

use super::clocks::at_most;
use super::families::Part;
use super::ids::{CallId, LockId};
use super::setting::LONGEST_TTL;
use super::timeline::{Micros, micros};

/// The parts of holds that servers have ended early, or may end early.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    cut: Vec<Claimed>,
    /// The parts that servers have forgotten. Such a server must not grant the lock to another client for as long as
    /// the lease would have lasted.
    forgotten: Vec<Claimed>,
    /// Calls whose early end is in the log as `Shortened`, and not yet as `Restored`.
    shortened: BTreeSet<CallId>,
}

/// The part that a server had granted to a call, and the time until which its holder may rely on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    lock: LockId,
    pub(super) part: Part,
    pub(super) until: Micros,
}

/// A change for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It may end early from now on.
    Shortened(Claimed),
    /// It no longer may.
    Restored(CallId),
}

impl Claimed {
    /// Returns the claim to this part. A holder relies on its lease for no longer than the longest ttl, however much
    /// the server has left.
    pub(super) fn new(lock: LockId, part: Part, now: Micros) -> Claimed {
        Claimed { lock, part, until: now + at_most(micros(part.left.min(LONGEST_TTL))) }
    }
}

impl Cuts {
    /// Adds what a server ended early, or may end early.
    pub(super) fn add_cut(&mut self, mut claimed: Claimed) {
        // What is cut now may have been cut before.
        let same = self.cut.iter().filter(|cut| cut.part.id() == claimed.part.id());
        claimed.until = same.map(|cut| cut.until).fold(claimed.until, Micros::max);
        // What the log says about this call so far is about another grant, or ends sooner.
        self.shortened.remove(&claimed.part.call);
        self.cut.push(claimed);
    }

    /// Adds what a server has forgotten.
    pub(super) fn add_forgotten(&mut self, claimed: Claimed) {
        self.forgotten.push(claimed);
    }

    /// Returns whether no server has ended anything early.
    pub(super) fn is_empty(&self) -> bool {
        self.cut.is_empty()
    }

    /// Returns which calls' holds may end early from now on, and which no longer may, while the servers have these
    /// parts of each lock.
    pub(super) fn changes(&mut self, now: Micros, parts: &[Vec<Part>], servers: usize) -> Vec<Change> {
        // The newest first: its end is the furthest away.
        let before: Vec<Claimed> = self.cut.iter().rev().copied().collect();
        self.drop_what_is_over(now, parts);
        let mut changes = Vec::new();
        for claimed in before {
            let call = claimed.part.call;
            let lost_majority = self.has_lost_majority(claimed, parts, servers);
            if lost_majority && self.shortened.insert(call) {
                changes.push(Change::Shortened(claimed));
            } else if !lost_majority && self.shortened.remove(&call) && now <= claimed.until {
                changes.push(Change::Restored(call));
            }
        }
        changes
    }

    /// Drops what is over, and what a server has prolonged since to at least the same end.
    fn drop_what_is_over(&mut self, now: Micros, parts: &[Vec<Part>]) {
        let lasts = |cut: &Claimed| {
            let part = parts[cut.lock].iter().find(|part| part.id() == cut.part.id());
            part.is_some_and(|part| now + at_most(micros(part.left)) >= cut.until)
        };
        self.cut.retain(|cut| now <= cut.until && !lasts(cut));
        self.forgotten.retain(|forgotten| now <= forgotten.until);
    }

    /// Returns whether the servers that have granted the lock to this call, and were not made to end it early, are no
    /// majority.
    fn has_lost_majority(&self, claimed: Claimed, parts: &[Vec<Part>], servers: usize) -> bool {
        let place = |part: &Part| {
            ((part.call, part.grant) == (claimed.part.call, claimed.part.grant)).then_some(part.place)
        };
        let of = |claims: &[Claimed]| -> BTreeSet<usize> {
            claims.iter().filter_map(|other| place(&other.part)).collect()
        };
        let (cut, forgotten) = (of(&self.cut), of(&self.forgotten));
        let had: BTreeSet<usize> = parts[claimed.lock].iter().filter_map(place).chain(forgotten).collect();
        !cut.is_empty() && had.difference(&cut).count() <= servers / 2
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEFT: Duration = Duration::from_millis(100);

    /// A part of the only hold, on this server.
    fn part(place: usize) -> Part {
        Part { place, call: 7, grant: 1, token: 42, left: LEFT }
    }

    fn cut(place: usize) -> Claimed {
        Claimed::new(0, part(place), 0)
    }

    fn has(places: &[usize]) -> Vec<Vec<Part>> {
        vec![places.iter().copied().map(part).collect()]
    }

    #[test]
    fn an_early_end_changes_once_and_only_before_it() {
        let mut cuts = Cuts::default();
        assert!(cuts.is_empty());
        cuts.add_cut(cut(0));
        assert_eq!(cuts.changes(1, &has(&[]), 1), [Change::Shortened(cut(0))]);
        assert_eq!(cuts.changes(2, &has(&[]), 1), []);
        assert_eq!(cuts.changes(cut(0).until + 1, &has(&[]), 1), []);
        assert!(cuts.is_empty());
    }

    #[test]
    fn a_hold_needs_a_majority_of_untouched_servers() {
        let mut cuts = Cuts::default();
        cuts.add_cut(cut(0));
        assert_eq!(cuts.changes(1, &has(&[1, 2]), 3), []);
        cuts.add_cut(cut(1));
        assert_eq!(cuts.changes(2, &has(&[2]), 3), [Change::Shortened(cut(1))]);
        // The second server has granted it again, for longer than the holder had counted on.
        assert_eq!(cuts.changes(3, &has(&[1, 2]), 3), [Change::Restored(7)]);
    }

    #[test]
    fn a_forgotten_part_still_counts_for_the_hold() {
        let mut cuts = Cuts::default();
        cuts.add_forgotten(cut(1));
        cuts.add_cut(cut(0));
        assert_eq!(cuts.changes(1, &has(&[2]), 3), []);
    }

    #[test]
    fn no_holder_relies_on_more_than_the_longest_ttl() {
        let long = Part { left: LONGEST_TTL * 9, ..part(0) };
        assert_eq!(Claimed::new(0, long, 5).until, 5 + at_most(micros(LONGEST_TTL)));
    }
}
