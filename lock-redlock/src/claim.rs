//! The claim: a candidate on the nodes, which listens to releases on each of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use lock_core::driver::{Attempt, Claim, Queueing, Release, Renewal, Request, Watched};
use lock_core::toolkit::Subscription;
use lock_core::{Clock, Effect, Error, ErrorKind, Random, Result};

use crate::candidate::Candidate;
use crate::node::Keys;
use crate::quorum::Quorum;
use crate::redis_node::RedisNode;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct RedlockClaim {
    quorum: Quorum<RedisNode>,
    candidate: Candidate<RedisNode>,
    keys: Arc<Keys>,
    patience: Duration,
    waits: Queueing,
    clock: Clock,
    listening: Listening,
}

/// The subscriptions of a claim on the nodes.
#[derive(Debug)]
enum Listening {
    Nothing,
    /// Releases, and the nodes that have notified the claim of one since it was last woken.
    Releases(Vec<Subscription>, BTreeSet<usize>),
    /// A revoke of the lock that it holds.
    Revokes(Vec<Subscription>),
}

/// The time for which a waiter that one node has notified of a release waits for a majority, and then for the others. A
/// node that has not notified it may still have the holder's lock. A try that comes too early gets a part of
/// the votes, and keeps them from other waiters until it has given them back.
const FOR_A_MAJORITY: Duration = Duration::from_millis(10);
const FOR_THE_OTHERS: Duration = Duration::from_millis(2);

impl RedlockClaim {
    pub(crate) fn new(
        quorum: Quorum<RedisNode>,
        keys: Arc<Keys>,
        request: Request,
        random: Random,
    ) -> RedlockClaim {
        let patience = quorum.node_patience(request.patience);
        let (clock, waits) = (request.clock.clone(), request.waits);
        let candidate = Candidate::new(quorum.clone(), keys.clone(), request, random);
        RedlockClaim { quorum, candidate, keys, patience, waits, clock, listening: Listening::Nothing }
    }

    /// Listens to releases, if a majority of the nodes has confirmed the channel already.
    fn listen_already(&mut self) {
        let nodes = self.quorum.nodes();
        let listening: Vec<Subscription> =
            nodes.iter().filter_map(|node| node.listen_already(&self.keys)).collect();
        if listening.len() >= self.quorum.majority() {
            self.listening = Listening::Releases(listening, BTreeSet::new());
        }
    }

    /// Listens on as many nodes as can be reached, at least a majority: every other majority has a node among them.
    async fn hear<F>(&self, ask: impl Fn(Arc<RedisNode>) -> F) -> Result<Vec<Subscription>>
    where
        F: Future<Output = Result<Subscription>> + Send + 'static,
    {
        let mut answers = self.quorum.ask_all(ask);
        let (mut listening, mut refused) = (Vec::new(), None);
        while let Some((_, answer)) = answers.next().await {
            match answer {
                Ok(here) => listening.push(here),
                Err(e) => refused = Some(e),
            }
        }
        let enough = listening.len() >= self.quorum.majority();
        match refused {
            Some(e) if !enough && e.kind() == ErrorKind::Unsupported => Err(e),
            Some(e) if !enough => {
                Err(Error::unavailable(Effect::NotApplied, e.message().to_owned()).with_source(e))
            }
            _ => Ok(listening),
        }
    }
}

#[async_trait]
impl Claim for RedlockClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        if self.waits == Queueing::Queued && matches!(self.listening, Listening::Nothing) {
            self.listen_already();
        }
        match self.candidate.attempt().await? {
            Attempt::Granted(grant) => {
                // A holder does not wait for wake-ups: one that it consumed would be missed by a waiter of this process.
                self.listening = Listening::Nothing;
                Ok(Attempt::Granted(grant))
            }
            Attempt::Busy(busy) => Ok(Attempt::Busy(match self.listening {
                Listening::Releases(..) => busy.and_listens(),
                Listening::Nothing | Listening::Revokes(_) => busy,
            })),
        }
    }

    async fn listen(&mut self) -> Result<()> {
        let (keys, patience) = (self.keys.clone(), self.patience);
        let heard = self.hear(move |node| {
            let keys = keys.clone();
            async move { node.listen(&keys, patience).await }
        });
        self.listening = Listening::Releases(heard.await?, BTreeSet::new());
        Ok(())
    }

    async fn watch(&mut self) -> Result<Watched> {
        let (value, patience) = (self.candidate.value(), self.patience);
        let heard = self.hear(move |node| {
            let value = value.clone();
            async move { node.watch(&value, patience).await }
        });
        self.listening = Listening::Revokes(heard.await?);
        Ok(Watched::FromNowOn)
    }

    async fn changed(&mut self) {
        match &mut self.listening {
            Listening::Nothing => std::future::pending().await,
            Listening::Revokes(nodes) => drop(woken(nodes, &BTreeSet::new()).await),
            Listening::Releases(nodes, told) => {
                released(nodes, told, self.quorum.majority(), &self.clock).await;
            }
        }
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.candidate.renew(ttl).await
    }

    async fn release(&mut self) -> Result<Release> {
        self.candidate.release().await
    }
}

/// Resolves when all nodes have notified the claim of a release, or when some have and the others take long.
/// What it has heard is in `told`, so that nothing is lost if it is dropped before.
async fn released(nodes: &[Subscription], told: &mut BTreeSet<usize>, majority: usize, clock: &Clock) {
    if told.is_empty() {
        told.insert(woken(nodes, told).await);
    }
    for (enough, patience) in [(majority, FOR_A_MAJORITY), (nodes.len(), FOR_THE_OTHERS)] {
        let others = async {
            while told.len() < enough {
                let next = woken(nodes, told).await;
                told.insert(next);
            }
        };
        clock.timeout(patience, others).await;
    }
    told.clear();
}

/// Resolves with the number of a node that tells of something, and is not among those that have told.
async fn woken(nodes: &[Subscription], told: &BTreeSet<usize>) -> usize {
    let silent = nodes.iter().enumerate().filter(|(at, _)| !told.contains(at));
    let woken = silent.map(|(at, here)| {
        Box::pin(async move {
            here.woken().await;
            at
        })
    });
    select_all(woken).await.0
}
