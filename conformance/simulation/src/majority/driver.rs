//! The driver: lock-redlock's candidates on simulated nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Claim, Context, Driver, Finding, Inspection, Release, Renewal, Request, Revocation, Revoked,
};
use lock_core::{Effect, Error, Info, Name, Random, Result};
use lock_memory::wire::Wire;
use lock_redlock::{Candidate, Keys, Quorum, describe};
use tokio::sync::Notify;

use super::Majority;
use super::end::SimNode;
use crate::setting::LONGEST_TTL;

/// The longest time that one node may take for one answer. Each client uses one of these two.
const NODE_PATIENCE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(400)];

#[derive(Debug)]
pub(super) struct MajorityDriver {
    quorum: Quorum<SimNode>,
    info: Arc<Info>,
    random: Random,
    heard: Arc<Heard>,
}

/// The notifications of a client, which all its claims share. Not tokio's `watch`, which wakes waiters in a random
/// order.
#[derive(Debug, Default)]
struct Heard {
    /// The number of releases that the client was told of.
    count: AtomicU64,
    more: Notify,
}

impl MajorityDriver {
    pub(super) fn new(wire: &Arc<dyn Wire<Majority>>, servers: usize, context: &Context) -> MajorityDriver {
        let nodes: Vec<_> =
            (0..servers).map(|at| Arc::new(SimNode::new(wire.clone(), context.clock.clone(), at))).collect();
        let impatient = context.random.up_to(Duration::from_secs(1)) < Duration::from_millis(500);
        let patience = NODE_PATIENCE[usize::from(!impatient)];
        let heard = Arc::<Heard>::default();
        let hears = heard.clone();
        wire.receive(Box::new(move |_| {
            hears.count.fetch_add(1, Ordering::Relaxed);
            hears.more.notify_waiters();
        }));
        MajorityDriver {
            quorum: Quorum::new(nodes, context.clock.clone(), patience),
            info: Arc::new(describe("simulated".to_owned(), servers, LONGEST_TTL)),
            random: context.random.clone(),
            heard,
        }
    }
}

#[async_trait]
impl Driver for MajorityDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let keys = Arc::new(keys(request.name.clone()));
        let candidate = Candidate::new(self.quorum.clone(), keys, request, self.random.clone());
        Box::new(MajorityClaim { candidate, heard: self.heard.clone(), seen: 0 })
    }

    /// Returns the holder that a majority shows. A revoke would need to name the holder differently: revokes on several
    /// nodes are not simulated.
    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let shown = self.quorum.inspect(Arc::new(keys(name.clone())), patience).await;
        shown.map_err(|_| Error::unavailable(Effect::NotApplied, "too few nodes have answered"))
    }

    async fn revoke(&self, _name: &Name, _revocation: Revocation) -> Result<Revoked> {
        Ok(Revoked::NotHeld)
    }

    async fn check(&self, _patience: Duration) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

/// Returns the keys of a lock. The simulated nodes need only the lock's own key.
fn keys(name: Name) -> Keys {
    let lock = name.as_str().as_bytes().to_vec();
    Keys { name, lock, token: Vec::new(), channel: Vec::new() }
}

#[derive(Debug)]
struct MajorityClaim {
    candidate: Candidate<SimNode>,
    heard: Arc<Heard>,
    /// The number of releases that the client had been told of when this claim last looked.
    seen: u64,
}

#[async_trait]
impl Claim for MajorityClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        self.candidate.attempt().await
    }

    async fn listen(&mut self) -> Result<()> {
        self.seen = self.heard.count.load(Ordering::Relaxed);
        Ok(())
    }

    async fn changed(&mut self) {
        let more = self.heard.more.notified();
        let count = self.heard.count.load(Ordering::Relaxed);
        if count == self.seen {
            more.await;
        }
        self.seen = self.heard.count.load(Ordering::Relaxed);
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.candidate.renew(ttl).await
    }

    async fn release(&mut self) -> Result<Release> {
        self.candidate.release().await
    }
}
