//! The claim: a candidate on the nodes, which listens to releases on each of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use lock_core::driver::{Attempt, Claim, Release, Renewal, Request, Subscription, Watched};
use lock_core::{Effect, Error, ErrorKind, Random, Result};

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
    listening: Vec<Subscription>,
}

impl RedlockClaim {
    pub(crate) fn new(
        quorum: Quorum<RedisNode>,
        keys: Arc<Keys>,
        request: Request,
        random: Random,
    ) -> RedlockClaim {
        let patience = quorum.node_patience(request.patience);
        let candidate = Candidate::new(quorum.clone(), keys.clone(), request, random);
        RedlockClaim { quorum, candidate, keys, patience, listening: Vec::new() }
    }

    /// Listens on as many nodes as can be reached, at least a majority: every other majority has a node among them.
    async fn hear<F>(&self, ask: impl Fn(Arc<RedisNode>) -> F) -> Result<Vec<Subscription>>
    where
        F: Future<Output = Result<Subscription>> + Send + 'static,
    {
        let mut answers = self.quorum.ask_all(ask);
        let (mut listening, mut refused) = (Vec::new(), None);
        while let Some((_, answer)) = answers.recv().await {
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
        let outcome = self.candidate.attempt().await;
        if let Ok(Attempt::Granted(_)) = &outcome {
            // A holder does not wait for wake-ups: one that it consumed would be missed by a waiter of this process.
            self.listening.clear();
        }
        outcome
    }

    async fn listen(&mut self) -> Result<()> {
        let (keys, patience) = (self.keys.clone(), self.patience);
        self.listening = self
            .hear(move |node| {
                let keys = keys.clone();
                async move { node.listen(&keys, patience).await }
            })
            .await?;
        Ok(())
    }

    async fn watch(&mut self) -> Result<Watched> {
        let (value, patience) = (self.candidate.value(), self.patience);
        self.listening = self
            .hear(move |node| {
                let value = value.clone();
                async move { node.watch(&value, patience).await }
            })
            .await?;
        Ok(Watched::FromNowOn)
    }

    async fn changed(&mut self) {
        if self.listening.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.listening.iter().map(|here| Box::pin(here.woken()))).await;
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.candidate.renew(ttl).await
    }

    async fn release(&mut self) -> Result<Release> {
        self.candidate.release().await
    }
}
