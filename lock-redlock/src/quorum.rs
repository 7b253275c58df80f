//! Several nodes, asked at once. A majority of them decides; answers that come later are not waited for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{Clock, Effect, Error, Instant, Result};

use crate::node::Node;
use crate::requests::Requests;

/// All nodes. Cheap to clone.
#[derive(Debug)]
pub struct Quorum<N> {
    nodes: Arc<[Arc<N>]>,
    clock: Clock,
    /// The time that one node may take for one answer.
    patience: Duration,
}

/// One node's answer, with the index of the node.
pub(crate) type Answer<T> = (usize, Result<T>);

impl<N> Clone for Quorum<N> {
    fn clone(&self) -> Quorum<N> {
        Quorum { nodes: self.nodes.clone(), clock: self.clock.clone(), patience: self.patience }
    }
}

impl<N: Node> Quorum<N> {
    /// Creates a quorum of these nodes, each of which may take `patience` for one answer.
    pub fn new(nodes: impl Into<Arc<[Arc<N>]>>, clock: Clock, patience: Duration) -> Quorum<N> {
        Quorum { nodes: nodes.into(), clock, patience }
    }

    /// Returns the nodes, in their order.
    pub fn nodes(&self) -> &Arc<[Arc<N>]> {
        &self.nodes
    }

    /// Returns how many nodes are a majority.
    pub fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns the error for too few answers, with this message. It is what so many of the nodes say that the others are no
    /// majority: `Rejected` if they refuse for good, a refusal if they refuse for now.
    pub(crate) fn too_few(&self, troubles: &[(usize, Error)], effect: Effect, message: String) -> Error {
        let decides = |is: fn(&Error) -> bool| {
            troubles.iter().filter(|(_, e)| is(e)).count() > self.nodes.len() - self.majority()
        };
        if decides(|e| !e.is_transient()) {
            return Error::rejected(message);
        }
        let error = Error::unavailable(effect, message);
        if decides(Error::is_refusal) { error.as_refusal() } else { error }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns how long one node may take for an answer, in a call that may take `whole`.
    pub(crate) fn node_patience(&self, whole: Duration) -> Duration {
        self.patience.min(whole)
    }

    /// Returns how long one node may take for an answer, in a call that ends at `ends`.
    pub(crate) fn patience(&self, ends: Instant) -> Duration {
        self.patience.min(ends.since(self.clock.now()))
    }

    /// Like `patience`, but leaves a third of the call's time: a try that fails has to be taken back within the call.
    pub(crate) fn patience_for_now(&self, ends: Instant) -> Duration {
        self.patience.min(ends.since(self.clock.now()) * 2 / 3)
    }

    /// Asks one node, as one of these requests.
    pub(crate) fn ask<T, A, F>(
        &self,
        at: usize,
        requests: &mut Requests<A>,
        into: fn(Answer<T>) -> A,
        ask: impl FnOnce(Arc<N>) -> F,
    ) where
        T: Send + 'static,
        A: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // `map`, because an async block would reserve space for the request twice.
        requests.push(ask(self.nodes[at].clone()).map(move |answer| into((at, answer))));
    }

    /// Asks all nodes the same question.
    pub(crate) fn ask_all<T, F>(&self, ask: impl Fn(Arc<N>) -> F) -> Requests<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.ask_some(0..self.nodes.len(), ask)
    }

    /// Asks all nodes. The question may depend on the node's index.
    pub(crate) fn ask_each<T, F>(&self, ask: impl Fn(usize, Arc<N>) -> F) -> Requests<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut requests = Requests::new();
        for at in 0..self.nodes.len() {
            self.ask(at, &mut requests, |answer| answer, |node| ask(at, node));
        }
        requests
    }

    /// Asks these nodes the same question.
    pub(crate) fn ask_some<T, F>(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        ask: impl Fn(Arc<N>) -> F,
    ) -> Requests<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut requests = Requests::new();
        for at in nodes {
            self.ask(at, &mut requests, |answer| answer, &ask);
        }
        requests
    }
}

/// Returns how long a majority keeps the lock: the longest time for which at least `majority` of the nodes keep it.
/// `None` if fewer nodes do.
pub(crate) fn kept_by(majority: usize, left: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    let mut left: Vec<Duration> = left.into_iter().collect();
    left.sort_unstable_by(|a, b| b.cmp(a));
    left.get(majority.checked_sub(1)?).copied()
}
