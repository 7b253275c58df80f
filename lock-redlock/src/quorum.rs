//! Several nodes, asked at once. What decides is a majority of them; what the others say later is not waited for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{Clock, Instant, Result};
use tokio::sync::mpsc;

use crate::node::Node;

/// All nodes. Cheap to clone.
#[derive(Debug)]
pub struct Quorum<N> {
    nodes: Arc<[Arc<N>]>,
    clock: Clock,
    /// How long one node may take for one answer.
    patience: Duration,
}

/// An answer of one node, by its place.
pub(crate) type Answer<T> = (usize, Result<T>);

impl<N> Clone for Quorum<N> {
    fn clone(&self) -> Quorum<N> {
        Quorum { nodes: self.nodes.clone(), clock: self.clock.clone(), patience: self.patience }
    }
}

impl<N: Node> Quorum<N> {
    /// These nodes, each of which may take so long for one answer.
    pub fn new(nodes: impl Into<Arc<[Arc<N>]>>, clock: Clock, patience: Duration) -> Quorum<N> {
        Quorum { nodes: nodes.into(), clock, patience }
    }

    /// The nodes, in their order.
    pub fn nodes(&self) -> &Arc<[Arc<N>]> {
        &self.nodes
    }

    /// How many nodes decide.
    pub fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long a node may take for an answer, in a call that may take so long.
    pub(crate) fn node_patience(&self, whole: Duration) -> Duration {
        self.patience.min(whole)
    }

    /// The same, in a call that ends then.
    pub(crate) fn patience(&self, ends: Instant) -> Duration {
        self.patience.min(ends.since(self.clock.now()))
    }

    /// The same, where something else has to follow in time: a try that comes to nothing is taken back.
    pub(crate) fn patience_for_now(&self, ends: Instant) -> Duration {
        self.patience.min(ends.since(self.clock.now()) * 2 / 3)
    }

    /// Asks one node, in a task of its own: what was sent to it is followed up, whoever loses interest. The answer comes
    /// where the others come; nobody may be listening there any more.
    pub(crate) fn ask<T, A, F>(
        &self,
        at: usize,
        answers: &mpsc::UnboundedSender<A>,
        into: fn(Answer<T>) -> A,
        ask: impl FnOnce(Arc<N>) -> F,
    ) where
        T: Send + 'static,
        A: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answers, asking) = (answers.clone(), ask(self.nodes[at].clone()));
        // `map`, because an async block would have room for `asking` twice, which is moved into each task.
        tokio::spawn(asking.map(move |answer| {
            // Who asked may have decided meanwhile.
            let _: Result<(), _> = answers.send(into((at, answer))).map_err(drop);
        }));
    }

    /// Asks all nodes the same.
    pub(crate) fn ask_all<T, F>(&self, ask: impl Fn(Arc<N>) -> F) -> mpsc::UnboundedReceiver<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.ask_some(0..self.nodes.len(), ask)
    }

    /// Asks these nodes the same.
    pub(crate) fn ask_some<T, F>(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        ask: impl Fn(Arc<N>) -> F,
    ) -> mpsc::UnboundedReceiver<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answers, answered) = mpsc::unbounded_channel();
        for at in nodes {
            self.ask(at, &answers, |answer| answer, &ask);
        }
        answered
    }
}

/// What a majority of nodes keeps: of what each of them keeps, the longest that so many keep at least. `None` if there
/// are not so many.
pub(crate) fn kept_by(majority: usize, left: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    let mut left: Vec<Duration> = left.into_iter().collect();
    left.sort_unstable_by(|a, b| b.cmp(a));
    left.get(majority.checked_sub(1)?).copied()
}
