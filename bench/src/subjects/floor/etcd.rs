//! etcd-client: the library's transactions under one lease, over one connection.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Client, EventType, KvClient, WatchOptions, WatchStream};
use lock_core::{Owner, Random};
use lock_etcd::floor::{Claim, Queue};

use super::raw::{Alone, Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw::etcd::{Lease, connect};
use crate::subjects::{Side, Subject, Worker};

pub(super) struct Floor {
    client: Client,
    lease: Lease,
    random: Random,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        let client = connect(url).await?;
        let lease = Lease::grant(&client).await?;
        Ok(Floor { client, lease, random: Random::system() })
    }

    fn requests(&self, name: &str) -> Outcome<Arc<Requests>> {
        let queue = Queue::new(name, &self.random)?;
        let (kv, lease, random) = (self.client.kv_client(), self.lease.id(), self.random.clone());
        Ok(Arc::new(Requests { kv, lease, queue, random }))
    }
}

/// Connects, and takes a lease, for one name.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Alone::new(Floor::connect(url).await?.requests(name)?)))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.requests(name)?)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let requests = self.requests(name)?;
        let own = requests.queue.claim(Owner::mint(&self.random)).key().to_vec();
        let whole = WatchOptions::new().with_prefix();
        let stream = self.client.watch_client().watch(requests.queue.start(), Some(whole)).await?;
        let told = Deletions { own, stream };
        Ok(Box::new(Holder::new(requests, Box::new(told))))
    }
}

/// The transactions of one name.
struct Requests {
    kv: KvClient,
    lease: i64,
    queue: Queue,
    random: Random,
}

#[async_trait]
impl Calls for Requests {
    type Claim = Claim;

    async fn claim(&self) -> Outcome<Claim> {
        Ok(self.queue.claim(Owner::mint(&self.random)))
    }

    async fn take(&self, claim: &mut Claim) -> Outcome<bool> {
        let answer = self.kv.clone().txn(claim.ask(self.lease)).await?;
        Ok(claim.is_first(&answer, self.lease)?)
    }

    async fn release(&self, claim: &mut Claim) -> Outcome<()> {
        let answer = self.kv.clone().txn(claim.release()).await?;
        match claim.is_released(&answer)? {
            true => Ok(()),
            false => Err("the floor's lock was not released".into()),
        }
    }
}

/// The watch for deletions by others.
struct Deletions {
    /// The key of this side's own claim, whose deletion doesn't count.
    own: Vec<u8>,
    stream: WatchStream,
}

#[async_trait]
impl Pushes for Deletions {
    async fn next(&mut self) -> Outcome<()> {
        while let Some(answer) = self.stream.message().await? {
            let others = |event: &etcd_client::Event| {
                let key = event.kv().map(etcd_client::KeyValue::key);
                event.event_type() == EventType::Delete && key != Some(&self.own[..])
            };
            if answer.events().iter().any(others) {
                return Ok(());
            }
        }
        Err("the watch has ended".into())
    }
}
