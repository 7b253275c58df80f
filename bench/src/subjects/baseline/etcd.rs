//! etcd-client: a key for each client under one lease; the one that was created first has the lock.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{
    Client, EventType, GetOptions, KvClient, PutOptions, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchStream,
};
use lock_core::Owner;

use super::{Calls, PLACE, Pushes, side, worker};
use crate::Outcome;
use crate::raw::etcd::{Lease, connect};
use crate::subjects::{Side, Subject, Worker};

pub(super) struct Baseline {
    client: Client,
    lease: Lease,
}

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        let client = connect(url).await?;
        let lease = Lease::grant(&client).await?;
        Ok(Baseline { client, lease })
    }

    fn named(&self, name: &str) -> Named {
        Named { kv: self.client.kv_client(), lease: self.lease.id(), prefix: format!("{PLACE}/{name}/") }
    }
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(worker(self.named(name)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let named = self.named(name);
        let whole = WatchOptions::new().with_prefix();
        let stream = self.client.watch_client().watch(&*named.prefix, Some(whole)).await?;
        Ok(side(Arc::new(named), Box::new(Deletions(stream))))
    }
}

struct Named {
    kv: KvClient,
    lease: i64,
    prefix: String,
}

struct Claim {
    key: String,
    /// The revision that created the key, once it is there.
    created: Option<i64>,
}

#[async_trait]
impl Calls for Named {
    type Claim = Claim;

    fn claim(&self, owner: Owner) -> Claim {
        Claim { key: format!("{}{owner}", self.prefix), created: None }
    }

    /// The first time, creates the key and lists those of the name; after that, only lists them.
    async fn take(&self, claim: &mut Claim) -> Outcome<bool> {
        let (mut kv, all) = (self.kv.clone(), GetOptions::new().with_prefix().with_keys_only());
        let answer = match claim.created {
            Some(_) => kv.get(&*self.prefix, Some(all)).await?,
            None => {
                let put = TxnOp::put(&*claim.key, "", Some(PutOptions::new().with_lease(self.lease)));
                let answer = kv.txn(Txn::new().and_then([put, TxnOp::get(&*self.prefix, Some(all))])).await?;
                claim.created = answer.header().map(etcd_client::ResponseHeader::revision);
                match answer.op_responses().into_iter().nth(1) {
                    Some(TxnOpResponse::Get(answer)) => answer,
                    other => return Err(format!("a transaction was answered with {other:?}").into()),
                }
            }
        };
        Ok(!answer.kvs().iter().any(|key| Some(key.create_revision()) < claim.created))
    }

    async fn release(&self, claim: &mut Claim) -> Outcome<bool> {
        Ok(self.kv.clone().delete(&*claim.key, None).await?.deleted() == 1)
    }
}

struct Deletions(WatchStream);

#[async_trait]
impl Pushes for Deletions {
    async fn next(&mut self) -> Outcome<()> {
        while let Some(answer) = self.0.message().await? {
            if answer.events().iter().any(|event| event.event_type() == EventType::Delete) {
                return Ok(());
            }
        }
        Err("the watch has ended".into())
    }
}
