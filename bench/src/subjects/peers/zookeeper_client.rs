//! The lock of the crate `zookeeper-client`, with the nodes that Curator makes.

use async_trait::async_trait;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use crate::Outcome;
use crate::raw::zookeeper::connect;
use crate::subjects::{Side, Subject};

/// Not the library's folder: the two would count each other's nodes.
const FOLDER: &str = "/lock-bench-peers";

pub(super) struct ZooKeeperClient {
    client: Client,
}

impl ZooKeeperClient {
    pub(super) async fn connect(url: &str) -> Outcome<ZooKeeperClient> {
        Ok(ZooKeeperClient { client: connect(url).await? })
    }
}

#[async_trait]
impl Subject for ZooKeeperClient {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Named { client: self.client.clone(), directory: format!("{FOLDER}/{name}"), held: None }))
    }
}

struct Named {
    client: Client,
    directory: String,
    held: Option<OwnedLockClient>,
}

#[async_trait]
impl Side for Named {
    async fn acquire(&mut self) -> Outcome<()> {
        let everyone = Acls::anyone_all();
        // The server removes the folders when they have been empty for a while.
        let folders = CreateMode::Container.with_acls(everyone);
        let options = LockOptions::new(everyone).with_ancestor_options(folders)?;
        let prefix = LockPrefix::new_curator(&self.directory, "lock-")?;
        self.held = Some(self.client.lock(prefix, b"", options).await?.into_owned());
        Ok(())
    }

    /// Drops the lock, as users of the crate do: the request is sent, and its answer is not waited for.
    async fn release(&mut self) -> Outcome<()> {
        self.held = None;
        Ok(())
    }
}
