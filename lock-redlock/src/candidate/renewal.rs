//! Renewals, and the nodes that have lost the lock meanwhile.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::driver::Renewal;
use lock_core::{Effect, Error, Instant, Result};

use super::{Candidate, outcome};
use crate::node::{Ask, Kept, Node};
use crate::quorum::{Answer, Quorum, kept_by};

/// The time for which a renewal that a majority has decided waits for the other nodes, so that a node which has lost
/// the lock gets it back by the same renewal. One that answers later gets it back by the next one.
const FOR_THE_OTHERS: Duration = Duration::from_millis(10);

impl<N: Node> Candidate<N> {
    /// As [`Claim::renew`](lock_core::driver::Claim::renew). A node that has lost the lock gets it back, because a
    /// majority has not lost it, and counts from the next renewal on.
    pub async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.renew_until(ttl, self.ends()).await
    }

    pub(super) async fn renew_until(&mut self, ttl: Duration, ends: Instant) -> Result<Renewal> {
        self.ask.longest = self.ask.longest.max(ttl);
        let ask = Ask { ttl, ..self.ask.clone() };
        let answers = self.quorum.renew(&ask, ends, &self.absent).await;
        if let Some(valid_for) = kept_by(self.quorum.majority(), answers.left) {
            self.refill(&ask, ends).await;
            return Ok(Renewal::Held { valid_for, age: Duration::ZERO });
        }
        if answers.lost.len() > self.quorum.nodes().len() - self.quorum.majority() {
            return Ok(Renewal::Lost(outcome::cause(&answers.lost, self.quorum.majority())));
        }
        Err(self.trouble(&answers.troubles, Effect::Unknown))
    }

    /// Gives the lock back to the nodes that are known to have lost it.
    async fn refill(&self, ask: &Ask, ends: Instant) {
        let (Some(token), absent) = (self.token, self.absent.take()) else { return };
        let patience = self.quorum.patience(ends);
        let mut refilled = self.quorum.ask_some(absent, |node| {
            let ask = ask.clone();
            async move { node.refill(ask, token, patience).await }
        });
        // Waits for the answers, so that no refill is still on its way when the lock is released.
        while refilled.next().await.is_some() {}
    }
}

impl<N: Node> Quorum<N> {
    /// Asks all nodes to keep the lock. Returns the answers of a majority, and those that follow shortly after.
    async fn renew(&self, ask: &Ask, ends: Instant, absent: &Absent) -> Answers {
        let patience = self.patience(ends);
        let mut arriving = self.ask_each(|at, node| {
            let (ask, absent) = (ask.clone(), absent.clone());
            async move { node.renew(ask, patience).await }.inspect(move |kept| absent.record(at, kept))
        });
        let mut answers = Answers::default();
        while !answers.decide(self.nodes().len(), self.majority()) {
            let Some(answer) = arriving.next().await else { return answers };
            answers.record(answer);
        }
        let others = async {
            while let Some(answer) = arriving.next().await {
                answers.record(answer);
            }
        };
        // The answers that come later than this are recorded in `absent`.
        let _: Option<()> = self.clock().timeout(FOR_THE_OTHERS, others).await;
        answers
    }
}

/// The answers to one renewal.
#[derive(Default)]
struct Answers {
    /// The time for which each node that has the lock keeps it.
    left: Vec<Duration>,
    /// The answers of the nodes that do not have it.
    lost: Vec<Kept>,
    troubles: Vec<(usize, Error)>,
}

impl Answers {
    fn record(&mut self, (at, answer): Answer<Kept>) {
        match answer {
            Ok(Kept::Yes { left }) => self.left.push(left),
            Ok(other) => self.lost.push(other),
            Err(e) => self.troubles.push((at, e)),
        }
    }

    /// Returns whether a majority keeps the lock, or none can.
    fn decide(&self, nodes: usize, majority: usize) -> bool {
        self.left.len() >= majority || self.lost.len() > nodes - majority
    }
}

/// The nodes whose last answer to a renewal was that they do not have the lock. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Absent(Arc<Mutex<BTreeSet<usize>>>);

impl Absent {
    fn record(&self, at: usize, answer: &Result<Kept>) {
        match answer {
            Ok(Kept::Absent) => _ = self.nodes().insert(at),
            Ok(_) => _ = self.nodes().remove(&at),
            Err(_) => {}
        }
    }

    fn take(&self) -> BTreeSet<usize> {
        mem::take(&mut self.nodes())
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
