//! etcd-client: a key for each client under one lease; the one that was created first has the lock.

use async_trait::async_trait;
use etcd_client::{
    Client, EventType, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchStream,
};
use lock_core::Owner;

use super::{Calls, Driver, NOT_SUBSCRIBED, PLACE};
use crate::Outcome;
use crate::raw::etcd::{Lease, connect};

pub(super) struct Server {
    client: Client,
    lease: Lease,
}

impl Server {
    pub(super) async fn connect(url: &str) -> Outcome<Server> {
        let client = connect(url).await?;
        let lease = Lease::grant(&client).await?;
        Ok(Server { client, lease })
    }
}

#[async_trait]
impl Driver for Server {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        let prefix = format!("{PLACE}/{name}/");
        Ok(Named { client: self.client.clone(), lease: self.lease.id, prefix, created: None, watch: None })
    }
}

pub(super) struct Named {
    client: Client,
    lease: i64,
    prefix: String,
    /// The revision that created the client's key, while that is there.
    created: Option<i64>,
    watch: Option<WatchStream>,
}

#[async_trait]
impl Calls for Named {
    async fn subscribe(&mut self) -> Outcome<()> {
        let whole = WatchOptions::new().with_prefix();
        self.watch = Some(self.client.watch(&*self.prefix, Some(whole)).await?);
        Ok(())
    }

    /// The first time, creates the key and lists those of the name; after that, only lists them.
    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        let all = GetOptions::new().with_prefix().with_keys_only();
        let answer = match self.created {
            Some(_) => self.client.get(&*self.prefix, Some(all)).await?,
            None => {
                let (key, lease) =
                    (format!("{}{owner}", self.prefix), PutOptions::new().with_lease(self.lease));
                let both = [TxnOp::put(key, "", Some(lease)), TxnOp::get(&*self.prefix, Some(all))];
                let answer = self.client.txn(Txn::new().and_then(both)).await?;
                self.created = answer.header().map(etcd_client::ResponseHeader::revision);
                match answer.op_responses().into_iter().nth(1) {
                    Some(TxnOpResponse::Get(answer)) => answer,
                    other => return Err(format!("a transaction was answered with {other:?}").into()),
                }
            }
        };
        Ok(!answer.kvs().iter().any(|key| Some(key.create_revision()) < self.created))
    }

    async fn released(&mut self) -> Outcome<()> {
        let watch = self.watch.as_mut().ok_or(NOT_SUBSCRIBED)?;
        while let Some(answer) = watch.message().await? {
            if answer.events().iter().any(|event| event.event_type() == EventType::Delete) {
                return Ok(());
            }
        }
        Err("the watch has ended".into())
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        self.created = None;
        Ok(self.client.delete(format!("{}{owner}", self.prefix), None).await?.deleted() == 1)
    }
}
