//! A lock's directory on the server: its queue, and how it is created.

use std::sync::Arc;

use lock_core::toolkit::{Call, Prefix};
use lock_core::{Name, Owner};
use zookeeper_client::{Acls, CreateMode, CreateOptions, Error as ZkError, MultiReadResult};

use crate::layout::{self, Ticket};
use crate::link::{Failure, Link};

/// The folder of all locks of a client.
#[derive(Debug)]
pub(crate) struct Folder {
    chroot: String,
    prefix: Prefix,
    /// The rights on the nodes that this client creates.
    acls: Acls<'static>,
}

impl Folder {
    pub(crate) fn new(chroot: String, prefix: Prefix, acls: Acls<'static>) -> Folder {
        Folder { chroot, prefix, acls }
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &str {
        &self.chroot
    }

    pub(crate) fn of(self: &Arc<Self>, name: &Name) -> Directory {
        let component = layout::component(&self.prefix.key(name));
        Directory { path: format!("{}/{component}", self.chroot), folder: self.clone() }
    }

    /// Returns the names of all locks that have a directory and begin with `beginning`; none if there is no folder.
    pub(crate) async fn names(
        &self,
        link: &Link,
        call: &Call,
        beginning: &str,
    ) -> Result<Vec<Name>, Failure> {
        let listed = match link.ask(call, link.client.list_children(&self.chroot)).await {
            Err(Failure::Refused(ZkError::NoNode)) => Vec::new(),
            listed => listed?,
        };
        let keys = listed.iter().filter_map(|component| layout::name(component));
        let names = keys.filter_map(|key| self.prefix.name(key.as_bytes()));
        Ok(names.filter(|name| name.as_str().starts_with(beginning)).collect())
    }

    /// Creates the folder if it is missing. The folder stays.
    pub(crate) async fn make(&self, link: &Link, call: &Call) -> Result<(), Failure> {
        let ends = self.chroot.match_indices('/').skip(1).map(|(at, _)| at).chain([self.chroot.len()]);
        for end in ends {
            let stays = CreateMode::Persistent.with_acls(self.acls);
            made(link.ask(call, link.client.create(&self.chroot[..end], &[], &stays)).await)?;
        }
        Ok(())
    }

    pub(crate) fn acls(&self) -> Acls<'static> {
        self.acls
    }
}

/// A lock's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: String,
    folder: Arc<Folder>,
}

impl Directory {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Returns the beginning of the path of an owner's node.
    pub(crate) fn node_prefix(&self, owner: &Owner) -> String {
        self.node(&layout::node_prefix(owner))
    }

    /// Returns how an owner's node is created: it goes with its session, and the server numbers it.
    pub(crate) fn node_options(&self) -> CreateOptions<'static> {
        CreateMode::EphemeralSequential.with_acls(self.folder.acls)
    }

    /// Sends the creation of the directory. The server removes the directory some time after it has become empty.
    pub(crate) fn make_once<'a>(
        &'a self,
        link: &'a Link,
    ) -> impl Future<Output = Result<(), ZkError>> + Send + 'a {
        let goes = CreateMode::Container.with_acls(self.folder.acls);
        let making = link.client.create(&self.path, &[], &goes);
        async move { making.await.map(drop) }
    }

    /// Handles the answer to [`make_once`](Self::make_once). If the folder is missing, creates the folder.
    pub(crate) async fn handle_made(
        &self,
        link: &Link,
        call: &Call,
        made: Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self::made(made) {
            Err(Failure::Refused(ZkError::NoNode)) => self.folder.make(link, call).await,
            made => made,
        }
    }

    /// Reads the queue, the first ticket first; empty if the directory does not exist.
    pub(crate) async fn queue(&self, link: &Link, call: &Call) -> Result<Vec<Ticket>, Failure> {
        self.find_queue(link, call).await.map(Option::unwrap_or_default)
    }

    /// Reads the queue, the first ticket first; `None` if the directory does not exist.
    pub(crate) async fn find_queue(&self, link: &Link, call: &Call) -> Result<Option<Vec<Ticket>>, Failure> {
        let listing = link.client.list_children(&self.path);
        match link.ask(call, listing).await {
            Err(Failure::Refused(ZkError::NoNode)) => Ok(None),
            listed => self.sort(link, call, listed).await.map(Some),
        }
    }

    /// Returns the queue of the nodes that were listed.
    pub(crate) async fn sort(
        &self,
        link: &Link,
        call: &Call,
        listed: Result<Vec<String>, Failure>,
    ) -> Result<Vec<Ticket>, Failure> {
        let children = match listed {
            Err(Failure::Refused(ZkError::NoNode)) => Vec::new(),
            listed => listed?,
        };
        let queue = layout::queue(children);
        match layout::unnumbered(&queue).len() {
            0 => Ok(queue),
            count => self.sort_unnumbered(link, call, queue, count).await,
        }
    }

    /// Sorts the last `count` tickets by their creation.
    async fn sort_unnumbered(
        &self,
        link: &Link,
        call: &Call,
        mut queue: Vec<Ticket>,
        count: usize,
    ) -> Result<Vec<Ticket>, Failure> {
        let unnumbered = queue.split_off(queue.len() - count);
        let mut reading = link.client.new_multi_reader();
        for ticket in &unnumbered {
            reading.add_get_data(&self.node(&ticket.name)).map_err(Failure::Refused)?;
        }
        let read = link.ask(call, reading.commit()).await?;
        let created = read.into_iter().zip(unnumbered).filter_map(|(read, ticket)| match read {
            MultiReadResult::Data { stat, .. } => Some((stat.czxid, ticket)),
            // The node has gone meanwhile.
            _ => None,
        });
        let mut created: Vec<(i64, Ticket)> = created.collect();
        created.sort_by_key(|(czxid, _)| *czxid);
        queue.extend(created.into_iter().map(|(_, ticket)| ticket));
        Ok(queue)
    }
}

/// Takes an existing node for a created one: two clients may create it at the same time, and one is told that it
/// exists.
fn made<T>(outcome: Result<T, Failure>) -> Result<(), Failure> {
    match outcome {
        Ok(_) | Err(Failure::Refused(ZkError::NodeExists)) => Ok(()),
        Err(failure) => Err(failure),
    }
}
