//! zookeeper-client: a node for each client in a directory for each name; the first in the order has the lock.

use async_trait::async_trait;
use lock_core::Owner;
use zookeeper_client::{Acls, Client, CreateMode, Error, OneshotWatcher};

use super::{Calls, Driver};
use crate::Outcome;
use crate::raw::zookeeper::connect;

const FOLDER: &str = "/lock-bench-baseline";

pub(super) struct Server(Client);

impl Server {
    pub(super) async fn connect(url: &str) -> Outcome<Server> {
        Ok(Server(connect(url).await?))
    }
}

#[async_trait]
impl Driver for Server {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        let directory = format!("{FOLDER}/{name}");
        let named = Named { client: self.0.clone(), directory, node: None, watcher: None };
        named.make(FOLDER, CreateMode::Persistent).await?;
        named.make(&named.directory, CreateMode::Container).await?;
        Ok(named)
    }
}

pub(super) struct Named {
    client: Client,
    directory: String,
    /// The name of the client's node, while that is there.
    node: Option<String>,
    /// The watch that the last look has left on the node before the waiter's.
    watcher: Option<OneshotWatcher>,
}

impl Named {
    async fn make(&self, path: &str, mode: CreateMode) -> Outcome<()> {
        match self.client.create(path, &[], &mode.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates a node and lists the directory, without waiting in between.
    async fn enter(&self) -> Result<(String, Vec<String>), Error> {
        let (path, options) =
            (format!("{}/n-", self.directory), CreateMode::EphemeralSequential.with_acls(Acls::anyone_all()));
        let creating = self.client.create(&path, &[], &options);
        let listing = self.client.list_children(&self.directory);
        let (_, sequence) = creating.await?;
        Ok((format!("n-{sequence}"), listing.await?))
    }
}

#[async_trait]
impl Calls for Named {
    /// Each look leaves a watch.
    async fn subscribe(&mut self) -> Outcome<()> {
        Ok(())
    }

    async fn take(&mut self, _: &Owner) -> Outcome<bool> {
        let (own, mut all) = match self.node.take() {
            Some(own) => (own, self.client.list_children(&self.directory).await?),
            None => match self.enter().await {
                Err(Error::NoNode) => {
                    // The server removes a directory that has been empty for a while.
                    self.make(&self.directory, CreateMode::Container).await?;
                    self.enter().await?
                }
                entered => entered?,
            },
        };
        all.sort_unstable();
        let before = all.iter().take_while(|other| **other < own).last().cloned();
        self.node = Some(own);
        let Some(before) = before else { return Ok(true) };
        if self.watcher.is_some() {
            return Ok(false);
        }
        match self.client.get_and_watch_data(&format!("{}/{before}", self.directory)).await {
            Ok((_, _, watcher)) => {
                self.watcher = Some(watcher);
                Ok(false)
            }
            // It has just gone. With two sides that take turns, it was the only one.
            Err(Error::NoNode) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    async fn released(&mut self) -> Outcome<()> {
        self.watcher.take().ok_or("no node is before the waiter's")?.changed().await;
        Ok(())
    }

    async fn release(&mut self, _: &Owner) -> Outcome<bool> {
        let Some(node) = self.node.take() else { return Ok(false) };
        self.client.delete(&format!("{}/{node}", self.directory), Some(0)).await?;
        Ok(true)
    }
}
