//! etcd-client: the library's transactions under one lease, over one connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, EventType, KvClient, LeaseClient, WatchOptions, WatchStream};
use lock_core::{Owner, Random};
use lock_etcd::floor::{Claim, Queue};
use tokio::task::AbortHandle;

use super::raw::{Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw::etcd::connect;
use crate::subjects::{Side, Subject, TTL, Worker};

/// How often the lease is kept alive, as the library does.
const BEAT: Duration = Duration::from_secs(TTL.as_secs() / 3);

pub(super) struct Floor {
    client: Client,
    lease: i64,
    random: Random,
    heartbeat: AbortHandle,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        let client = connect(url).await?;
        let mut leases = client.lease_client();
        let lease = leases.grant(i64::try_from(TTL.as_secs())?, None).await?.id();
        let heartbeat = tokio::spawn(keep_alive(leases, lease)).abort_handle();
        Ok(Floor { client, lease, random: Random::system(), heartbeat })
    }

    fn requests(&self, name: &str) -> Outcome<Arc<Requests>> {
        let queue = Queue::new(name, &self.random)?;
        let (kv, lease, random) = (self.client.kv_client(), self.lease, self.random.clone());
        Ok(Arc::new(Requests { kv, lease, queue, random }))
    }
}

async fn keep_alive(mut leases: LeaseClient, lease: i64) {
    let Ok((mut keeper, mut answers)) = leases.keep_alive(lease).await else { return };
    loop {
        tokio::time::sleep(BEAT).await;
        if keeper.keep_alive().await.is_err() || answers.message().await.is_err() {
            return;
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
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
