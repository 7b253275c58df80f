//! zookeeper-client: a node for each client in a directory for each name; the first in the order has the lock.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Owner;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, Error, OneshotWatcher};

use super::{Calls, Pushes, side, worker};
use crate::Outcome;
use crate::raw::zookeeper::connect;
use crate::subjects::{Side, Subject, Worker};

const FOLDER: &str = "/lock-bench-baseline";

pub(super) struct Baseline(Client);

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        Ok(Baseline(connect(url).await?))
    }

    async fn named(&self, name: &str) -> Outcome<Named> {
        let directory = format!("{FOLDER}/{name}");
        let named = Named { client: self.0.clone(), directory, watcher: Mutex::default() };
        named.make(FOLDER, CreateMode::Persistent).await?;
        named.make_directory().await?;
        Ok(named)
    }
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(worker(self.named(name).await?))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let named = Arc::new(self.named(name).await?);
        Ok(side(named.clone(), Box::new(Watched(named))))
    }
}

struct Named {
    client: Client,
    directory: String,
    /// The watch on the node before the waiter's.
    watcher: Mutex<Option<OneshotWatcher>>,
}

impl Named {
    async fn make(&self, path: &str, mode: CreateMode) -> Outcome<()> {
        match self.client.create(path, &[], &mode.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The server removes a directory that has been empty for a while.
    async fn make_directory(&self) -> Outcome<()> {
        self.make(&self.directory, CreateMode::Container).await
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
    /// The name of the node, once it is there.
    type Claim = Option<String>;

    fn claim(&self, _: Owner) -> Option<String> {
        None
    }

    async fn take(&self, node: &mut Option<String>) -> Outcome<bool> {
        let (own, mut all) = match node.take() {
            Some(own) => (own, self.client.list_children(&self.directory).await?),
            None => match self.enter().await {
                Err(Error::NoNode) => {
                    self.make_directory().await?;
                    self.enter().await?
                }
                entered => entered?,
            },
        };
        all.sort_unstable();
        let before = all.iter().take_while(|other| **other < own).last().cloned();
        *node = Some(own);
        let Some(before) = before else { return Ok(true) };
        if self.watcher.lock().await.is_some() {
            return Ok(false);
        }
        match self.client.get_and_watch_data(&format!("{}/{before}", self.directory)).await {
            Ok((_, _, watcher)) => {
                *self.watcher.lock().await = Some(watcher);
                Ok(false)
            }
            // It has just gone. With two sides that take turns, it was the only one.
            Err(Error::NoNode) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    async fn release(&self, node: &mut Option<String>) -> Outcome<bool> {
        let Some(node) = node.take() else { return Ok(false) };
        self.client.delete(&format!("{}/{node}", self.directory), Some(0)).await?;
        Ok(true)
    }
}

/// The watch that the last look has left.
struct Watched(Arc<Named>);

#[async_trait]
impl Pushes for Watched {
    async fn next(&mut self) -> Outcome<()> {
        let watcher = self.0.watcher.lock().await.take();
        watcher.ok_or("no node is before the waiter's")?.changed().await;
        Ok(())
    }
}
