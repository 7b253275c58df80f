//! Taking a lock from its holder, on a majority of the nodes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Revocation, Revoked};
use lock_core::{Name, Result};
use lock_redis::node::revoked;
use tokio::sync::mpsc;

use super::RedlockDriver;
use crate::node::Keys;
use crate::quorum::Answer;

impl RedlockDriver {
    /// On each node another value stands in the place of the holder's, until its deadline.
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
        while let Some(answer) = arriving.recv().await {
            answers.push(answer);
        }
        self.judge(answers)
    }

    /// The same first, and free only then: a node that is free gets the lock back from a holder that renews with a
    /// majority of the others, and one where another value stands does not.
    pub(super) async fn revoke_now(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, patience, .. } = revocation;
        let (keys, successor) = (self.keys(name), revoked(holder.as_bytes(), &by, &label));
        let arriving =
            self.replace(self.every_node(), &keys, holder.as_bytes(), &successor, patience * 2 / 3);
        let is_taken = |answer: &Result<Revoked>| matches!(answer, Ok(Revoked::FreeIn(_)));
        let taken = self.enough(arriving, patience, is_taken).await;
        // Where the holder did not stand, the same value may be of a revoke before this one, which left it its deadline.
        let is_elsewhere =
            |at: usize| taken.iter().any(|(of, answer)| *of == at && answer.is_ok() && !is_taken(answer));
        // Also where a majority has not: what the others have put there is of no use.
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

    /// On each of these nodes, if `holder` stands there; no successor frees it.
    fn replace(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        keys: &Arc<Keys>,
        holder: &[u8],
        successor: &str,
        patience: Duration,
    ) -> mpsc::UnboundedReceiver<Answer<Revoked>> {
        let (holder, successor): (Arc<[u8]>, Arc<str>) = (holder.into(), successor.into());
        self.quorum.ask_some(nodes, |node| {
            let (keys, holder, successor) = (keys.clone(), holder.clone(), successor.clone());
            async move { node.revoke(&keys, &holder, &successor, patience).await }
        })
    }

    /// The answers of all, but once a majority has given one that `counts`, the others are waited for only as long as a
    /// node may take: one that is dead keeps nothing from being free.
    async fn enough(
        &self,
        mut arriving: mpsc::UnboundedReceiver<Answer<Revoked>>,
        patience: Duration,
        counts: impl Fn(&Result<Revoked>) -> bool,
    ) -> Vec<Answer<Revoked>> {
        let mut answers: Vec<Answer<Revoked>> = Vec::new();
        while answers.iter().filter(|(_, answer)| counts(answer)).count() < self.quorum.majority() {
            let Some(answer) = arriving.recv().await else { return answers };
            answers.push(answer);
        }
        let others = async {
            while let Some(answer) = arriving.recv().await {
                answers.push(answer);
            }
        };
        // By then no renewal that was asked before counts any more: its holder has the same patience with a node.
        let _: Option<()> = self.clock.timeout(self.quorum.node_patience(patience), others).await;
        answers
    }

    /// What the nodes' answers to another value mean for the lock.
    fn judge(&self, answers: Vec<Answer<Revoked>>) -> Result<Revoked> {
        let said: Vec<Revoked> =
            answers.iter().filter_map(|(_, answer)| answer.as_ref().ok().copied()).collect();
        // What is left to the holder is no majority: it can't renew.
        if said.len() < self.quorum.majority() {
            return Err(self.too_few(answers, "answered, and the holder may keep the lock"));
        }
        let taken = said.iter().filter_map(|revoked| match revoked {
            Revoked::FreeIn(left) => Some(*left),
            _ => None,
        });
        let unheard = self.quorum.nodes().len() - said.len();
        match taken.clone().max() {
            Some(left) if taken.count() + unheard >= self.quorum.majority() => Ok(Revoked::FreeIn(left)),
            _ => Ok(Revoked::NotHeld),
        }
    }
}
