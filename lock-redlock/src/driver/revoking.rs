//! Revoking a lock on a majority of the nodes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Revocation, Revoked};
use lock_core::{Name, Result};
use lock_redis::node::revoked;

use super::RedlockDriver;
use crate::node::Keys;
use crate::quorum::Answer;
use crate::requests::Requests;

impl RedlockDriver {
    /// Replaces the holder's value on each node by another one, which stays until the holder's deadline.
    pub(super) async fn revoke_at_the_deadline(
        &self,
        name: &Name,
        revocation: Revocation,
    ) -> Result<Revoked> {
        let Revocation { holder, by, label, patience, .. } = revocation;
        let successor = revoked(holder.as_bytes(), &by, &label);
        let mut arriving =
            self.replace(self.every_node(), &self.keys(name), holder.as_bytes(), &successor, patience);
        let mut answers = Vec::new();
        while let Some(answer) = arriving.next().await {
            answers.push(answer);
        }
        self.judge(answers)
    }

    /// Replaces the holder's value first, too, and frees the nodes only then. A free node gets the lock back from a
    /// holder that renews with a majority of the others; a node with another value does not.
    pub(super) async fn revoke_now(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, patience, .. } = revocation;
        let (keys, successor) = (self.keys(name), revoked(holder.as_bytes(), &by, &label));
        let arriving =
            self.replace(self.every_node(), &keys, holder.as_bytes(), &successor, patience * 2 / 3);
        let is_taken = |answer: &Result<Revoked>| matches!(answer, Ok(Revoked::FreeIn(_)));
        let taken = self.enough(arriving, patience, is_taken).await;
        // On a node that did not have the holder's value, the same successor may be from an earlier revoke, which left
        // it until the holder's deadline.
        let is_elsewhere =
            |at: usize| taken.iter().any(|(of, answer)| *of == at && answer.is_ok() && !is_taken(answer));
        // Also if it is not a majority that has the successor: on the others it is of no use.
        let asked: Vec<usize> = self.every_node().filter(|at| !is_elsewhere(*at)).collect();
        let arriving = self.replace(asked, &keys, successor.as_bytes(), "", patience / 3);
        let freed = self.enough(arriving, patience, Result::is_ok).await;
        let is_free = |at: usize| freed.iter().any(|(freed, answer)| *freed == at && answer.is_ok());
        let is_gone = |at: usize| is_elsewhere(at) || is_free(at);
        let free = taken.iter().filter(|(at, answer)| answer.is_ok() && is_gone(*at)).count();
        match self.judge(taken)? {
            Revoked::FreeIn(_) if free >= self.quorum.majority() => Ok(Revoked::Free),
            outcome => Ok(outcome),
        }
    }

    fn every_node(&self) -> Range<usize> {
        0..self.quorum.nodes().len()
    }

    /// Replaces `holder` on each of these nodes that has it. An empty successor frees the node.
    fn replace(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        keys: &Arc<Keys>,
        holder: &[u8],
        successor: &str,
        patience: Duration,
    ) -> Requests<Answer<Revoked>> {
        let (holder, successor): (Arc<[u8]>, Arc<str>) = (holder.into(), successor.into());
        self.quorum.ask_some(nodes, |node| {
            let (keys, holder, successor) = (keys.clone(), holder.clone(), successor.clone());
            async move { node.revoke(&keys, &holder, &successor, patience).await }
        })
    }

    /// Returns the answers of the nodes. Once a majority has given one that `counts`, it waits for the others only as
    /// long as one node may take: a dead node does not keep the lock from becoming free.
    async fn enough(
        &self,
        mut arriving: Requests<Answer<Revoked>>,
        patience: Duration,
        counts: impl Fn(&Result<Revoked>) -> bool,
    ) -> Vec<Answer<Revoked>> {
        let mut answers: Vec<Answer<Revoked>> = Vec::new();
        while answers.iter().filter(|(_, answer)| counts(answer)).count() < self.quorum.majority() {
            let Some(answer) = arriving.next().await else { return answers };
            answers.push(answer);
        }
        let others = async {
            while let Some(answer) = arriving.next().await {
                answers.push(answer);
            }
        };
        // After that time, no renewal that was sent before counts any more: the holder waits no longer for an answer of
        // a node.
        let _: Option<()> = self.clock.timeout(self.quorum.node_patience(patience), others).await;
        answers
    }

    /// Returns what the nodes' answers to the replacement mean for the lock.
    fn judge(&self, answers: Vec<Answer<Revoked>>) -> Result<Revoked> {
        let outcomes: Vec<Revoked> =
            answers.iter().filter_map(|(_, answer)| answer.as_ref().ok().copied()).collect();
        // From a majority of answers on, the nodes that the holder may still have are no majority: it can't renew.
        if outcomes.len() < self.quorum.majority() {
            return Err(self.too_few(answers, "answered, and the holder may keep the lock"));
        }
        let taken = outcomes.iter().filter(|outcome| matches!(outcome, Revoked::FreeIn(_))).count();
        let unheard = self.quorum.nodes().len() - outcomes.len();
        match free_after(&outcomes, self.quorum.majority()) {
            Some(left) if taken + unheard >= self.quorum.majority() => Ok(Revoked::FreeIn(left)),
            _ => Ok(Revoked::NotHeld),
        }
    }
}

/// Returns after what time a majority is free. The lease on a node that granted or renewed late ends later, and the next
/// holder does not need that node.
fn free_after(outcomes: &[Revoked], majority: usize) -> Option<Duration> {
    let left = |outcome: &Revoked| match outcome {
        Revoked::FreeIn(left) => *left,
        Revoked::Free | Revoked::NotHeld => Duration::ZERO,
    };
    let mut lefts: Vec<Duration> = outcomes.iter().map(left).collect();
    lefts.sort_unstable();
    lefts.get(majority - 1).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::driver::Revoked::{self, FreeIn, NotHeld};

    use super::free_after;

    const MAJORITY: usize = 3;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn after<const N: usize>(outcomes: [Revoked; N]) -> Option<Duration> {
        free_after(&outcomes, MAJORITY)
    }

    #[test]
    fn a_revoked_lock_is_free_when_a_majority_is() {
        let [short, mid, long] = [seconds(1), seconds(2), seconds(60)];
        assert_eq!(after([FreeIn(long), FreeIn(short), FreeIn(short), FreeIn(mid), FreeIn(long)]), Some(mid));
        assert_eq!(after([NotHeld, NotHeld, FreeIn(long), FreeIn(mid)]), Some(mid), "two are free already");
        assert_eq!(after([FreeIn(short), FreeIn(mid), FreeIn(long)]), Some(long), "two may be late");
        assert_eq!(after([FreeIn(short), FreeIn(mid)]), None, "a minority decides nothing");
    }
}
