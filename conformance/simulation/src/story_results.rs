//! Plays many histories of a story, with its fault and no other, and counts how often it does harm.
//!
//! Callers here never look at their guards: they write for as long as planned. A resource that checks tokens refuses
//! stale writes, and one that doesn't takes them; the same histories show both.

use std::collections::BTreeMap;

use super::check::{Invariant, Violation};
use super::history::{History, Script, play_by};
use super::log::What;
use super::setting::NAMES;
use super::stories::Story;

/// Plays `histories` histories of a story, with the seeds from `seed` on.
pub fn play_story(story: &'static Story, histories: u64, seed: u64) -> StoryResults {
    let mut results = StoryResults::default();
    for seed in (0..histories).map(|n| seed.wrapping_add(n)) {
        results.add(&play_by(story.family, seed, Script::Told(story)));
    }
    results
}

/// The results of the histories of a story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoryResults {
    /// The number of histories.
    pub histories: u64,
    /// Calls that were granted a lock.
    pub grants: u64,
    /// Histories in which two guards of one lock said at the same time that they hold it.
    pub with_two_holders: u64,
    /// Histories in which a promise was broken that the story's fault does not excuse.
    pub with_broken_promises: u64,
    /// Histories in which a write arrived after one of a newer holder. A resource without tokens takes such a write.
    pub with_stale_writes: u64,
    /// The number of such writes.
    pub stale_writes: u64,
    /// The number of them that a resource with tokens took.
    pub stale_writes_taken: u64,
}

impl StoryResults {
    fn add(&mut self, history: &History) {
        self.histories += 1;
        self.grants += history.verdict.grants;
        let violations = &history.verdict.violations;
        let two_hold = |violation: &Violation| violation.invariant == Invariant::Exclusion;
        let excused =
            [Invariant::Exclusion, Invariant::LossInTime].map(|i| history.verdict.excused[i as usize]);
        let overlap = excused != [0, 0] || violations.iter().any(two_hold);
        self.with_two_holders += u64::from(overlap);
        self.with_broken_promises += u64::from(!violations.is_empty());
        let (stale, taken) = stale_writes(history);
        self.with_stale_writes += u64::from(stale > 0);
        self.stale_writes += stale;
        self.stale_writes_taken += taken;
    }
}

/// Returns how many writes arrived after one of a newer holder, and how many of those a resource with tokens took.
/// Which holder is newer follows from the order in which the servers had their holders. Tokens can't decide that here:
/// by their order, no stale write would ever be taken.
fn stale_writes(history: &History) -> (u64, u64) {
    let (mut locks, mut had, mut holds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut newest = [0; NAMES.len()];
    let (mut stale, mut taken) = (0, 0);
    for (nth, entry) in history.log.iter().enumerate() {
        match entry.what {
            What::Asked { call, lock, .. } => _ = locks.insert(call, lock),
            What::Holder { call: Some(call), .. } => _ = had.insert(call, nth),
            // If clocks are set during a grant, the grant may have ended on one server before the last server of a
            // majority granted it.
            What::Granted { call, .. } => _ = holds.insert(call, had.get(&call).copied().unwrap_or(nth)),
            What::Wrote { call, accepted, .. } => {
                let (since, newest) = (holds[&call], &mut newest[locks[&call]]);
                stale += u64::from(since < *newest);
                taken += u64::from(since < *newest && accepted);
                *newest = since.max(*newest);
            }
            _ => {}
        }
    }
    (stale, taken)
}
