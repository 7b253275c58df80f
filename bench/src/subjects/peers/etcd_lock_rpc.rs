//! etcd's own lock service, called by etcd-client: the server waits in place of the client.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{LockClient, LockOptions};

use crate::Outcome;
use crate::raw::etcd::{Lease, connect};
use crate::subjects::{Side, Subject};

pub(super) struct EtcdLockRpc {
    service: LockClient,
    lease: Arc<Lease>,
}

impl EtcdLockRpc {
    pub(super) async fn connect(url: &str) -> Outcome<EtcdLockRpc> {
        let client = connect(url).await?;
        let lease = Arc::new(Lease::grant(&client).await?);
        Ok(EtcdLockRpc { service: client.lock_client(), lease })
    }
}

#[async_trait]
impl Subject for EtcdLockRpc {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Named {
            service: self.service.clone(),
            lease: self.lease.clone(),
            name: name.to_owned(),
            key: None,
        }))
    }
}

/// One name under the lease that all names of the connection share.
struct Named {
    service: LockClient,
    lease: Arc<Lease>,
    name: String,
    /// The key on the server while the lock is held.
    key: Option<Vec<u8>>,
}

#[async_trait]
impl Side for Named {
    async fn acquire(&mut self) -> Outcome<()> {
        let options = LockOptions::new().with_lease(self.lease.id());
        let granted = self.service.lock(self.name.as_str(), Some(options)).await?;
        self.key = Some(granted.key().to_vec());
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        if let Some(key) = self.key.take() {
            self.service.unlock(key).await?;
        }
        Ok(())
    }
}
