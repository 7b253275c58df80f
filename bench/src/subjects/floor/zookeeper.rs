//! zookeeper-client: the library's requests in one session.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Owner, Random};
use lock_zk::floor;
use tokio::sync::Mutex;
use zookeeper_client::{Client, CreateOptions, Error, OneshotWatcher};

use super::raw::{Alone, Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw::zookeeper::connect;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct Floor {
    client: Client,
    random: Random,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        Ok(Floor { client: connect(url).await?, random: Random::system() })
    }

    async fn requests(&self, name: &str) -> Outcome<Arc<Requests>> {
        let requests = self.of(name);
        requests.make_directory().await?;
        Ok(Arc::new(requests))
    }

    /// Returns the requests of a name that has no directory yet.
    fn of(&self, name: &str) -> Requests {
        let (client, random) = (self.client.clone(), self.random.clone());
        Requests { client, directory: floor::directory(name), random, watcher: Mutex::default() }
    }
}

/// Opens a session for one name.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Alone::new(Arc::new(Floor::connect(url).await?.of(name)))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.requests(name).await?)))
    }

    async fn use_once(&self, name: &str) -> Outcome<()> {
        Cycles(Arc::new(self.of(name))).cycle().await
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let requests = self.requests(name).await?;
        let told = Watched(requests.clone());
        Ok(Box::new(Holder::new(requests, Box::new(told))))
    }
}

/// The requests of one name.
struct Requests {
    client: Client,
    directory: String,
    random: Random,
    /// The watch on the node before the waiter's.
    watcher: Mutex<Option<OneshotWatcher>>,
}

impl Requests {
    async fn make_directory(&self) -> Outcome<()> {
        self.make(floor::FOLDER, &floor::folder_options()).await?;
        self.make(&self.directory, &floor::directory_options()).await
    }

    async fn make(&self, path: &str, options: &CreateOptions<'static>) -> Outcome<()> {
        match self.client.create(path, &[], options).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates a node and lists the directory, without waiting in between. Returns `None` if the directory is not
    /// there: the server removes one that has been empty for a while.
    async fn enter(&self, owner: &Owner) -> Outcome<Option<(String, Vec<String>)>> {
        let (path, data) = (floor::node(&self.directory, owner), floor::data(TTL));
        let creating = self.client.create(&path, &data, &floor::node_options());
        let listing = self.client.list_children(&self.directory);
        let sequence = match creating.await {
            Ok((_, sequence)) => sequence,
            Err(Error::NoNode) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let node = path.rsplit('/').next().unwrap_or_default();
        Ok(Some((format!("{node}{sequence}"), listing.await?)))
    }

    /// The same, and creates the directory first, without waiting in between either. Returns `None` if the folder was
    /// not there.
    async fn enter_anew(&self, owner: &Owner) -> Outcome<Option<(String, Vec<String>)>> {
        let options = floor::directory_options();
        // Sent before what `enter` sends.
        let making = self.client.create(&self.directory, &[], &options);
        let entered = self.enter(owner).await?;
        match making.await {
            Ok(_) | Err(Error::NodeExists) => Ok(entered),
            Err(Error::NoNode) => self.make(floor::FOLDER, &floor::folder_options()).await.map(|()| None),
            Err(e) => Err(e.into()),
        }
    }
}

/// One acquisition.
struct Claim {
    owner: Owner,
    /// The name of its node, if it has one.
    node: Option<String>,
}

#[async_trait]
impl Calls for Requests {
    type Claim = Claim;

    async fn claim(&self) -> Outcome<Claim> {
        Ok(Claim { owner: Owner::mint(&self.random), node: None })
    }

    /// The first time, creates a node and lists the directory without waiting in between; after that, only lists it.
    async fn take(&self, claim: &mut Claim) -> Outcome<bool> {
        let children = match &claim.node {
            Some(_) => self.client.list_children(&self.directory).await?,
            None => {
                let mut entered = self.enter(&claim.owner).await?;
                let (node, children) = loop {
                    match entered {
                        Some(entered) => break entered,
                        None => entered = self.enter_anew(&claim.owner).await?,
                    }
                };
                claim.node = Some(node);
                children
            }
        };
        if self.watcher.lock().await.is_some() {
            return Ok(false);
        }
        let Some(before) = floor::before(children, claim.node.as_deref().unwrap_or_default()) else {
            return Ok(true);
        };
        match self.client.get_and_watch_data(&format!("{}/{before}", self.directory)).await {
            Ok((_, _, watcher)) => {
                *self.watcher.lock().await = Some(watcher);
                Ok(false)
            }
            // The node before this one has just gone. With two sides that take turns, it was the only one.
            Err(Error::NoNode) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    async fn release(&self, claim: &mut Claim) -> Outcome<()> {
        let node = claim.node.take().ok_or("there is nothing to release")?;
        Ok(self.client.delete(&format!("{}/{node}", self.directory), Some(0)).await?)
    }
}

/// The watch that the last look has left.
struct Watched(Arc<Requests>);

#[async_trait]
impl Pushes for Watched {
    async fn next(&mut self) -> Outcome<()> {
        let watcher = self.0.watcher.lock().await.take();
        watcher.ok_or("no node is before the waiter's")?.changed().await;
        Ok(())
    }
}
