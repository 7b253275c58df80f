//! The driver: opens claims, shows holders, takes locks from them, gives nodes their votes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Claim, Driver, Finding, Inspection, Level, Request, Revocation, Revoked, When};
use lock_core::{Context, Done, Error, Info, Name, Prefix, Random, Result};
use lock_redis::node::{Kind, beside, key};

use crate::claim::RedlockClaim;
use crate::info::describe;
use crate::node::{Held, Keys, Node};
use crate::quorum::{Answer, Quorum};
use crate::redis_node::{Marked, RedisNode, shown, successor};
use crate::settings::Redlock;

/// A majority of independent servers.
#[derive(Debug)]
pub(crate) struct RedlockDriver {
    quorum: Quorum<RedisNode>,
    prefix: Prefix,
    info: Arc<Info>,
    random: Random,
}

impl RedlockDriver {
    pub(crate) async fn open(redlock: Redlock, context: Context) -> Result<RedlockDriver> {
        let server = redlock.address();
        let Redlock { nodes, prefix, max_ttl, node_patience, .. } = redlock;
        let nodes: Vec<Arc<RedisNode>> = nodes
            .into_iter()
            .map(|redis| RedisNode::new(redis, context.clone(), &prefix, max_ttl).map(Arc::new))
            .collect::<Result<_>>()?;
        let info = Arc::new(describe(server, nodes.len(), max_ttl));
        let quorum = Quorum::new(nodes, context.clock.clone(), node_patience);
        let driver = RedlockDriver { quorum, prefix, info, random: context.random.clone() };
        driver.ready(context.patience).await?;
        Ok(driver)
    }

    /// Waits until a majority can be asked.
    async fn ready(&self, patience: Duration) -> Result<()> {
        let mut arriving = self.quorum.ask_all(move |node| async move { node.ready(patience).await });
        let (mut ready, mut troubles) = (0, Vec::new());
        while let Some((at, answer)) = arriving.recv().await {
            match answer {
                Ok(()) => ready += 1,
                Err(e) => troubles.push((at, Err(e))),
            }
            if ready >= self.quorum.majority() {
                return Ok(());
            }
        }
        Err(self.too_few::<()>(troubles, "can be reached"))
    }

    async fn all<T, F>(&self, ask: impl Fn(Arc<RedisNode>) -> F) -> Vec<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut arriving = self.quorum.ask_all(ask);
        let mut answers = Vec::new();
        while let Some(answer) = arriving.recv().await {
            answers.push(answer);
        }
        answers.sort_by_key(|(at, _)| *at);
        answers
    }

    fn keys(&self, name: &Name) -> Arc<Keys> {
        let lock = key(&self.prefix, name);
        Arc::new(Keys {
            name: name.clone(),
            token: beside(&lock, Kind::Token),
            channel: beside(&lock, Kind::Wakes),
            lock,
        })
    }

    fn address(&self, at: usize) -> &str {
        self.quorum.nodes()[at].address()
    }

    fn too_few<T>(&self, answers: Vec<Answer<T>>, what: &str) -> Error {
        let troubles: Vec<String> = answers
            .into_iter()
            .filter_map(|(at, answer)| Some(format!("{}: {}", self.address(at), answer.err()?.message())))
            .collect();
        let message =
            format!("no majority of the {} nodes {what}; {}", self.quorum.nodes().len(), troubles.join("; "));
        Error::unavailable(Done::No, message)
    }
}

#[async_trait]
impl Driver for RedlockDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(RedlockClaim::new(
            self.quorum.clone(),
            self.keys(&request.name),
            request,
            self.random.clone(),
        ))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let keys = self.keys(name);
        let answers = self
            .all(|node| {
                let keys = keys.clone();
                async move { node.inspect(&keys, patience).await }
            })
            .await;
        if answers.iter().filter(|(_, answer)| answer.is_ok()).count() < self.quorum.majority() {
            return Err(self.too_few(answers, "answered"));
        }
        let held = answers.into_iter().filter_map(|(_, answer)| answer.ok().flatten());
        Ok(shown(held_by_a_majority(held, self.quorum.majority())))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (keys, patience, when) = (self.keys(name), revocation.patience, revocation.when);
        let (holder, successor) = (revocation.holder.clone(), successor(&revocation));
        let answers = self
            .all(|node| {
                let (keys, holder, successor) = (keys.clone(), holder.clone(), successor.clone());
                async move { node.revoke(&keys, holder.as_bytes(), &successor, patience).await }
            })
            .await;
        let taken: Vec<Revoked> = answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok().copied())
            .filter(|revoked| *revoked != Revoked::NotHeld)
            .collect();
        let answered = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
        // What is left to the holder is no majority: it can't renew.
        if answered < self.quorum.majority() {
            return Err(self.too_few(answers, "answered, and the holder may keep the lock"));
        }
        if taken.len() + (self.quorum.nodes().len() - answered) < self.quorum.majority() {
            return Ok(Revoked::NotHeld);
        }
        if when == When::Now {
            return Ok(Revoked::Free);
        }
        let mut left: Vec<Duration> = taken
            .iter()
            .map(|revoked| if let Revoked::FreeIn(left) = revoked { *left } else { Duration::ZERO })
            .collect();
        left.sort_unstable();
        Ok(left.last().copied().map_or(Revoked::Free, Revoked::FreeIn))
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let answers = self.all(move |node| async move { node.check(patience).await }).await;
        let mut findings = Vec::new();
        for (at, answer) in answers {
            let address = self.address(at).to_owned();
            match answer {
                Ok(of_node) => findings.extend(of_node.into_iter().map(|finding| Finding {
                    message: format!("{address}: {}", finding.message),
                    ..finding
                })),
                Err(e) => findings.push(Finding::new(
                    "reachable",
                    Level::Bad,
                    format!("{address}: {}", e.message()),
                )),
            }
        }
        Ok(findings)
    }

    /// Gives every node its vote at once, because the operator says that nobody holds anything.
    async fn init(&self, patience: Duration) -> Result<String> {
        let answers = self.all(move |node| async move { node.mark(patience).await }).await;
        if answers.iter().any(|(_, answer)| answer.is_err()) {
            return Err(self.too_few(answers, "was marked"));
        }
        let done = answers.into_iter().filter_map(|(at, answer)| match answer {
            Ok(Marked::Now { votes_in }) if votes_in.is_zero() => {
                Some(format!("{} votes now", self.address(at)))
            }
            Ok(Marked::Now { votes_in }) => Some(format!("{} votes in {votes_in:?}", self.address(at))),
            _ => None,
        });
        Ok(done.collect::<Vec<_>>().join("\n"))
    }
}

/// What a majority of the nodes shows of the same holder.
fn held_by_a_majority(held: impl Iterator<Item = Held>, majority: usize) -> Option<Held> {
    let mut by_value: BTreeMap<Vec<u8>, Vec<Held>> = BTreeMap::new();
    for held in held {
        by_value.entry(held.value.clone()).or_default().push(held);
    }
    let mut nodes = by_value.into_values().find(|nodes| nodes.len() >= majority)?;
    nodes.sort_by_key(|held| std::cmp::Reverse(held.left));
    let left = nodes.get(majority - 1)?.left;
    // The token that a majority has acknowledged: a node that came late to the grant may have another.
    let agree = |token: Option<i64>| nodes.iter().filter(|held| held.token == token).count();
    let shown = nodes.iter().max_by_key(|held| (agree(held.token), held.token))?;
    Some(Held { left, ..shown.clone() })
}
