//! What the nodes say to a release, as far as it counts.

use std::collections::BTreeMap;

/// One owner's way out of a hold, over all its releases.
///
/// Where a majority's word doesn't come, the release is repeated. Meanwhile a node may come by the lock anew: it is
/// started again with an older state of its data. Its yes to the second release would make a majority of what was
/// none any more at the first. So a node's first word stands.
#[derive(Debug, Default)]
pub(super) struct Parting {
    /// Whether each node had the lock when it was first asked to give it up.
    had_it: BTreeMap<usize, bool>,
}

impl Parting {
    pub(super) fn hears(&mut self, at: usize, had_it: bool) {
        self.had_it.entry(at).or_insert(had_it);
    }

    pub(super) fn has_heard(&self, at: usize) -> bool {
        self.had_it.contains_key(&at)
    }

    /// How many have given up what they had of the hold.
    pub(super) fn freed(&self) -> usize {
        self.had_it.values().filter(|had_it| **had_it).count()
    }
}
