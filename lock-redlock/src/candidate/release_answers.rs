//! The nodes' answers to a release that count.

use std::collections::BTreeMap;

/// The nodes' answers to all releases of one hold.
///
/// If a majority's answer is missing, the release is repeated. Meanwhile a node may get the lock back, because it is
/// restarted with an older state of its data. Its yes to the second release could then complete a majority that no
/// longer existed at the first release. Therefore each node's first answer counts.
#[derive(Debug, Default)]
pub(super) struct ReleaseAnswers {
    /// For each node: it had the lock when it was first asked to release it.
    had_it: BTreeMap<usize, bool>,
}

impl ReleaseAnswers {
    pub(super) fn record(&mut self, at: usize, had_it: bool) {
        self.had_it.entry(at).or_insert(had_it);
    }

    pub(super) fn has_answered(&self, at: usize) -> bool {
        self.had_it.contains_key(&at)
    }

    /// Returns how many nodes have released what they had of the hold.
    pub(super) fn freed(&self) -> usize {
        self.had_it.values().filter(|had_it| **had_it).count()
    }
}
