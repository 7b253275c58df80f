//! The driver: opens claims, shows holders, revokes locks, gives nodes their votes.

mod revoking;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Claim, Context, Driver, Finding, Inspection, Level, Request, Revocation, Revoked, When,
};
use lock_core::toolkit::{CommonParameters, CurrentInfo, HumanDuration, Opening, Prefix};
use lock_core::{Clock, Effect, Error, ErrorKind, Info, Name, Random, Result};
use lock_redis::node::{Kind, VoteRegistry, beside, key};

use crate::claim::RedlockClaim;
use crate::info::describe;
use crate::node::{Keys, Node};
use crate::quorum::{Answer, Quorum};
use crate::redis_node::{Marked, RedisNode};
use crate::settings::Redlock;

/// The driver of several independent servers, of which a majority decides.
#[derive(Debug)]
pub(crate) struct RedlockDriver {
    quorum: Quorum<RedisNode>,
    prefix: Prefix,
    info: CurrentInfo,
    registry: Arc<VoteRegistry>,
    random: Random,
    clock: Clock,
}

impl RedlockDriver {
    pub(crate) async fn open(redlock: Redlock, context: Context) -> Result<RedlockDriver> {
        let server = redlock.address();
        let Redlock { nodes, common, max_ttl, node_patience } = redlock;
        let CommonParameters { prefix, opening, .. } = common;
        let registry = Arc::<VoteRegistry>::default();
        let nodes: Vec<Arc<RedisNode>> = nodes
            .into_iter()
            .map(|redis| {
                RedisNode::new(redis, context.clone(), &prefix, max_ttl, registry.clone()).map(Arc::new)
            })
            .collect::<Result<_>>()?;
        let database = nodes.first().map_or(0, |node| node.database());
        let place = format!("{database} {}", prefix.as_str());
        let info = CurrentInfo::new(describe(server, nodes.len(), max_ttl), place);
        let quorum = Quorum::new(nodes, context.clock.clone(), node_patience);
        let (random, clock) = (context.random.clone(), context.clock.clone());
        let driver = RedlockDriver { quorum, prefix, info, registry, random, clock };
        if opening == Opening::Waits {
            driver.ready(&context).await?;
        }
        Ok(driver)
    }

    /// Returns which servers these are, if all of them have been asked.
    fn servers(&self) -> Option<String> {
        let nodes = self.quorum.nodes();
        // Different databases would have to be listed in the order of their servers.
        let have_one_database = nodes.iter().all(|node| node.database() == nodes[0].database());
        have_one_database.then(|| self.registry.all(nodes.len())).flatten()
    }

    /// Waits until a majority can be asked, and then for the others as long as one node may take. A second address of a
    /// server that is a node already gives an error.
    async fn ready(&self, context: &Context) -> Result<()> {
        let patience = context.patience;
        let mut arriving = self.quorum.ask_all(move |node| async move { node.ready(patience).await });
        let (mut ready, mut troubles) = (0, Vec::new());
        while ready < self.quorum.majority() {
            match arriving.next().await {
                Some((_, Ok(()))) => ready += 1,
                Some((_, Err(e))) if e.kind() == ErrorKind::Invalid => return Err(e),
                Some((at, Err(e))) => troubles.push((at, Err(e))),
                None => return Err(self.too_few::<()>(troubles, "can be reached")),
            }
        }
        let others = async {
            while let Some((_, answer)) = arriving.next().await {
                if let Err(e) = answer
                    && e.kind() == ErrorKind::Invalid
                {
                    return Err(e);
                }
            }
            Ok(())
        };
        context.clock.timeout(self.quorum.node_patience(patience), others).await.unwrap_or(Ok(()))
    }

    async fn all<T, F>(&self, ask: impl Fn(Arc<RedisNode>) -> F) -> Vec<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut arriving = self.quorum.ask_all(ask);
        let mut answers = Vec::new();
        while let Some(answer) = arriving.next().await {
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

    /// Returns the error for too few answers: `Rejected` if so many of the nodes refuse for good that the others are no
    /// majority.
    fn too_few<T>(&self, answers: Vec<Answer<T>>, what: &str) -> Error {
        let troubles: Vec<(usize, Error)> =
            answers.into_iter().filter_map(|(at, answer)| Some((at, answer.err()?))).collect();
        let nodes = self.quorum.nodes().len();
        let messages: Vec<String> =
            troubles.iter().map(|(at, e)| format!("{}: {}", self.address(*at), e.message())).collect();
        let message = format!("no majority of the {nodes} nodes {what}; {}", messages.join("; "));
        self.quorum.too_few(&troubles, Effect::NotApplied, message)
    }
}

#[async_trait]
impl Driver for RedlockDriver {
    fn info(&self) -> Arc<Info> {
        self.info.learn_server(self.servers().as_deref());
        self.info.get()
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
        let shown = self.quorum.inspect(self.keys(name), patience).await;
        shown.map_err(|answers| self.too_few(answers, "answered"))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        match revocation.when {
            When::HoldersDeadline => self.revoke_at_the_deadline(name, revocation).await,
            When::Now => self.revoke_now(name, revocation).await,
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let answers = self.all(move |node| async move { node.check(patience).await }).await;
        let votes = |found: &[Finding]| found.iter().any(|f| f.subject == "votes" && f.level == Level::Good);
        let voting = answers.iter().filter(|(_, answer)| answer.as_deref().is_ok_and(votes)).count();
        let mut findings = Vec::new();
        if voting < self.quorum.majority() {
            let nodes = self.quorum.nodes().len();
            let message =
                format!("{voting} of the {nodes} nodes have a vote at present: no lock can be taken");
            findings.push(Finding::new("majority", Level::Bad, message));
        }
        for (at, answer) in answers {
            let address = self.address(at).to_owned();
            match answer {
                Ok(of_node) => findings.extend(of_node.into_iter().map(|finding| {
                    let message = format!("{address}: {}", finding.message);
                    Finding::new(finding.subject, finding.level, message)
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

    /// Gives every node its vote at once, because the operator says that no client holds a lock.
    async fn init(&self, patience: Duration) -> Result<String> {
        let answers = self.all(move |node| async move { node.mark(patience).await }).await;
        if answers.iter().any(|(_, answer)| answer.is_err()) {
            return Err(self.too_few(answers, "was marked"));
        }
        let done = answers.into_iter().filter_map(|(at, answer)| match answer {
            Ok(Marked::Now { votes_in }) if votes_in.is_zero() => {
                Some(format!("{} votes now", self.address(at)))
            }
            Ok(Marked::Now { votes_in }) => {
                Some(format!("{} votes in {}", self.address(at), HumanDuration(votes_in)))
            }
            _ => None,
        });
        Ok(done.collect::<Vec<_>>().join("\n"))
    }
}
