//! The meaning of a failed try for its candidate: contention, nodes without a vote, or trouble.

use std::time::Duration;

use lock_core::driver::{Attempt, Busy, Entry, LossReason};
use lock_core::{Effect, Error, Result};

use super::Candidate;
use crate::inspection::{entry, that_show};
use crate::node::{Held, Kept, Node};
use crate::round::{Failure, Order};

/// The longest pause after a try that no candidate won.
const LONGEST_SPLIT: Duration = Duration::from_millis(250);

impl<N: Node> Candidate<N> {
    /// Returns what a failed try means.
    pub(super) fn judge(&mut self, failure: Failure, took: Duration) -> Result<Attempt> {
        let Failure { yes, no, sits_out, troubles, leaves, deferred, .. } = failure;
        let majority = self.quorum.majority();
        if no.iter().any(|held| held.left.is_none()) {
            return Err(Error::rejected(
                "the key has no expiry: some clients write such a key when they take a lock without a timeout, as redis-py's \
                 Lock does by default, and so do programs that keep other data there; have that client set a timeout, take \
                 another name or prefix, or delete the key",
            ));
        }
        if !deferred && (yes + no.len() < majority || no.is_empty()) {
            let done = if leaves { Effect::Unknown } else { Effect::NotApplied };
            if !sits_out.is_empty() && yes + no.len() + sits_out.len() >= majority {
                return Err(self.quarantined(&sits_out, majority - yes.min(majority - 1), done));
            }
            return Err(self.trouble(&troubles, done));
        }
        let mut busy = match self.leader(&no) {
            Some(holder) => {
                self.record_majority();
                Busy::default().with_free_in(free_in(&no, majority.saturating_sub(yes))).with_holder(holder)
            }
            // Either several candidates have a part of the nodes each, or one has a majority that includes nodes which
            // can't be asked. The answers do not tell which. A candidate that tries again at once meets the same others
            // again.
            None => {
                self.record_split(if deferred { no.into_iter().next() } else { None });
                let pause = took.saturating_mul(1 << self.splits.min(8)).min(LONGEST_SPLIT);
                Busy::default().with_free_in(pause)
            }
        };
        busy.queued = leaves;
        Ok(Attempt::Busy(busy))
    }

    /// Records that a candidate has a majority.
    pub(super) fn record_majority(&mut self) {
        (self.splits, self.order, self.deferred_to) = (0, Order::AllAtOnce, None);
    }

    /// Records that no candidate has a majority. From now on only the candidate that has the first node goes on:
    /// candidates that ask all nodes at once keep each other from a majority for as long as there are many of them. If
    /// the first node is still held for the same try when this candidate comes again, it asks all nodes, to see whether
    /// that try has a majority.
    fn record_split(&mut self, first: Option<Held>) {
        self.splits += 1;
        let first = first.map(|held| held.value);
        let stays = first.is_some() && first == self.deferred_to;
        (self.order, self.deferred_to) =
            if stays { (Order::AllAtOnce, None) } else { (Order::FirstAlone, first) };
    }

    /// Returns the holder that a majority shows.
    fn leader(&self, no: &[Held]) -> Option<Entry> {
        let agree = |other: &Held| {
            no.iter().filter(|held| (&held.value, held.token) == (&other.value, other.token)).count()
        };
        let held = no.iter().max_by_key(|held| (that_show(no, &held.value), agree(held), held.token))?;
        (that_show(no, &held.value) >= self.quorum.majority()).then(|| {
            // The token that a majority has acknowledged. A node that granted late may have another one.
            let token = held.token.filter(|_| agree(held) >= self.quorum.majority());
            entry(Held { token, ..held.clone() })
        })
    }

    fn quarantined(&self, sits_out: &[(usize, Duration)], needed: usize, effect: Effect) -> Error {
        let mut left: Vec<Duration> = sits_out.iter().map(|(_, left)| *left).collect();
        left.sort_unstable();
        let retry_in = left.get(needed.saturating_sub(1)).or(left.last()).copied().unwrap_or_default();
        let nodes: Vec<String> = sits_out
            .iter()
            .map(|(at, left)| {
                format!("{} in {:.1} s", self.quorum.nodes()[*at].address(), left.as_secs_f64())
            })
            .collect();
        Error::unavailable(
            effect,
            format!(
                "too few of the {} nodes have a vote: {} may have forgotten locks, and vote again when none of those can \
                 be held any more ({}). If no client holds a lock, `lock init` gives them their votes at once",
                self.quorum.nodes().len(),
                sits_out.len(),
                nodes.join(", ")
            ),
        )
        .with_retry_in(retry_in)
        .as_refusal()
    }

    /// Returns the error for too few answers.
    pub(super) fn trouble(&self, troubles: &[(usize, Error)], effect: Effect) -> Error {
        let nodes: Vec<String> = troubles
            .iter()
            .map(|(at, e)| format!("{}: {}", self.quorum.nodes()[*at].address(), e.message()))
            .collect();
        let message = format!(
            "a majority of the {} nodes did not agree in time; {}",
            self.quorum.nodes().len(),
            if nodes.is_empty() { "their answers came too late".to_owned() } else { nodes.join("; ") }
        );
        self.quorum.too_few(troubles, effect, message)
    }
}

/// Returns after what time `needed` of the nodes that hold the lock for other owners are free.
fn free_in(no: &[Held], needed: usize) -> Option<Duration> {
    let mut left: Vec<Duration> = no.iter().filter_map(|held| held.left).collect();
    left.sort_unstable();
    left.get(needed.checked_sub(1)?).copied()
}

/// Returns why the lock is lost. A node that reports a revoke decides, as does a majority that reports another owner.
/// Otherwise it is gone: a single node may have another candidate's try, or a release may be on its way.
pub(super) fn cause(lost: &[Kept], majority: usize) -> LossReason {
    let count = |what| lost.iter().filter(|kept| **kept == what).count();
    if count(Kept::Revoked) > 0 {
        LossReason::Revoked
    } else if count(Kept::Taken) >= majority {
        LossReason::Taken
    } else {
        LossReason::Gone
    }
}
