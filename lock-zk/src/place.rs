//! An owner's place in a lock's queue: its node, and what is known of it.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::Owner;
use lock_core::driver::{Call, Release, Request, Waits};
use zookeeper_client::Error as ZkError;

use crate::directory::Directory;
use crate::kind::Kind;
use crate::layout::{self, Ticket};
use crate::link::{Failure, Link};

/// Where an owner stands, as far as it knows.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) directory: Directory,
    /// What the names of the owner's nodes begin with.
    prefix: String,
    node: Option<Node>,
    /// A node may have been made on the link of this number, or on an earlier one, and nobody has said so.
    uncertain: Option<u64>,
    /// Nodes that were revoked: they are not the owner's any more.
    condemned: Vec<String>,
    /// Nodes that are no tickets.
    passed_over: BTreeSet<String>,
    ahead: Option<String>,
    /// Whether others were seen there.
    others: bool,
    /// Whether its release looks who else is there, if nobody was seen.
    looks: bool,
    /// The directory was not there at the last look.
    is_missing: bool,
    /// The removal of the node was asked for, and not answered.
    is_going: bool,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    czxid: i64,
}

/// What a look at the queue has shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nobody stands before its node, which was made in this transaction.
    First { czxid: i64 },
    /// Somebody does.
    Behind { ahead: String },
    /// Nobody does, but somebody has asked it to give up: this node is not its any more.
    Revoked { path: String },
    /// Somebody holds the lock, and no place is wanted.
    Outside,
    /// It has to be looked at again.
    Unknown,
}

/// Data that nobody has written to but their owner.
const FIRST_VERSION: Option<i32> = Some(0);

impl Place {
    pub(crate) fn new(directory: Directory, owner: Owner) -> Place {
        let prefix = layout::node_prefix(&owner);
        let (node, uncertain, condemned, ahead) = (None, None, Vec::new(), None);
        // One of eight does: often enough for a process to know that nobody waits elsewhere.
        let looks = owner.as_bytes()[0].is_multiple_of(8);
        Place {
            directory,
            prefix,
            node,
            uncertain,
            condemned,
            passed_over: BTreeSet::new(),
            ahead,
            others: false,
            looks,
            is_missing: false,
            is_going: false,
        }
    }

    /// Nothing of it is on the server, nor will be.
    pub(crate) fn forget(&mut self) {
        (self.node, self.uncertain, self.ahead) = (None, None, None);
        (self.others, self.is_going) = (false, false);
        self.condemned.clear();
    }

    /// What may be of it on the server, for another to remove.
    pub(crate) fn take(&mut self) -> Place {
        let taken = self.clone();
        self.forget();
        taken
    }

    /// Whether this is the same owner's.
    pub(crate) fn is_of(&self, other: &Place) -> bool {
        self.prefix == other.prefix
    }

    /// This node is no ticket, and not waited for.
    pub(crate) fn passes_over(&mut self, name: &str) {
        self.passed_over.insert(name.to_owned());
    }

    /// Its node is not there any more.
    pub(crate) fn is_gone(&mut self) {
        (self.node, self.ahead) = (None, None);
    }

    /// Its node, which is its no more: others stand behind it until the session removes it.
    fn condemn(&mut self) -> Option<String> {
        let Node { name, .. } = self.node.take()?;
        let path = self.directory.node(&name);
        self.condemned.push(name);
        Some(path)
    }

    /// Whether something of it may be on the server, or may yet come to be.
    pub(crate) fn may_be_there(&self) -> bool {
        self.node.is_some() || self.uncertain.is_some()
    }

    /// On links up to this one a node may be made that nobody knows of; 0 for none.
    pub(crate) fn uncertain_up_to(&self) -> u64 {
        self.uncertain.unwrap_or(0)
    }

    pub(crate) fn path(&self) -> Option<String> {
        self.node.as_ref().map(|node| self.directory.node(&node.name))
    }

    /// Who stood right before it when it was last looked at.
    pub(crate) fn ahead(&self) -> Option<&str> {
        self.node.as_ref().and(self.ahead.as_deref())
    }

    /// Looks at the queue, and takes a place in it first if one is wanted and there is none.
    pub(crate) async fn stand(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Stand, Failure> {
        if self.uncertain.is_some() {
            self.find(link, call).await?;
        }
        let queue = match (&self.node, request.waits) {
            (Some(node), _) => return self.look_again(link, call, &self.directory.node(&node.name)).await,
            (None, Waits::Queued) => match self.enter(link, call, request, timeout).await? {
                Some(queue) => queue,
                None => return Ok(Stand::Unknown),
            },
            (None, Waits::No) => {
                let queue = self.directory.find_queue(link, call).await?;
                self.is_missing = queue.is_none();
                if self.is_held(link, call, &queue.unwrap_or_default()).await? {
                    return Ok(Stand::Outside);
                }
                match self.enter(link, call, request, timeout).await? {
                    Some(queue) => queue,
                    None => return Ok(Stand::Unknown),
                }
            }
        };
        let stand = self.read(&queue);
        if request.waits == Waits::No && matches!(stand, Stand::Behind { .. }) {
            // Somebody was quicker.
            self.give_up(link, call).await?;
            self.forget();
            return Ok(Stand::Outside);
        }
        Ok(stand)
    }

    /// Whether a ticket stands in this queue.
    async fn is_held(&mut self, link: &Link, call: &Call, queue: &[Ticket]) -> Result<bool, Failure> {
        for Ticket { name, .. } in queue {
            let path = self.directory.node(name);
            let kind = match link.ask(call, link.client.get_data(&path)).await {
                Ok((_, stat)) => Kind::of(name, &stat),
                Err(Failure::Refused(ZkError::NoNode)) => continue,
                // Not everybody's to read.
                Err(Failure::Refused(ZkError::NoAuth)) => Kind::Ticket,
                Err(failure) => return Err(failure),
            };
            match kind {
                Kind::Ticket => return Ok(true),
                Kind::Other => self.passes_over(name),
                Kind::Stray => return Err(Failure::Stray(path)),
            }
        }
        Ok(false)
    }

    /// Looks at the queue, and what has become of the node in it, in one flight.
    async fn look_again(&mut self, link: &Link, call: &Call, path: &str) -> Result<Stand, Failure> {
        let listing = link.client.list_children(self.directory.path());
        let reading = link.client.get_data(path);
        let listed = link.ask(call, listing).await;
        let queue = self.directory.sort(link, call, listed).await?;
        let stand = self.read(&queue);
        if let Stand::First { .. } = stand {
            match link.ask(call, reading).await {
                Ok((data, _)) if !layout::is_revoked(&data) => {}
                Ok(_) => return Ok(self.condemn().map_or(Stand::Unknown, |path| Stand::Revoked { path })),
                Err(Failure::Refused(ZkError::NoNode)) => {
                    self.is_gone();
                    return Ok(Stand::Unknown);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(stand)
    }

    /// Makes the node, and lists who is there, in one flight; the directory too, where it is known to be missing. `None` if
    /// it has to be done again.
    async fn enter(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Option<Vec<Ticket>>, Failure> {
        let (path, data) =
            (self.directory.node_prefix(&request.owner), layout::data(&request.label, timeout));
        // From here on it is on its way: whoever polls it.
        self.uncertain = Some(link.number);
        let making = self.is_missing.then(|| self.directory.make_once(link));
        let creating = link.client.create(&path, &data, &self.directory.node_options());
        let listing = link.client.list_children(self.directory.path());
        match link.ask(&call.with_reserve(), creating).await {
            Ok((stat, sequence)) => {
                (self.uncertain, self.is_missing) = (None, false);
                self.node = Some(Node { name: format!("{}{sequence}", self.prefix), czxid: stat.czxid });
            }
            Err(Failure::Refused(refusal)) => {
                self.uncertain = None;
                if refusal != ZkError::NoNode {
                    return Err(Failure::Refused(refusal));
                }
                if let Some(making) = making {
                    self.directory.is_made(link, call, link.ask(call, making).await).await?;
                }
                self.is_missing = true;
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let listed = link.ask(call, listing).await;
        self.directory.sort(link, call, listed).await.map(Some)
    }

    /// Finds the node whose making was not answered: on a link that was made later, where it is now or never will be.
    async fn find(&mut self, link: &Link, call: &Call) -> Result<(), Failure> {
        let queue = self.directory.queue(link, call).await?;
        let own = queue.iter().find(|ticket| self.is_own(&ticket.name));
        if let Some(Ticket { name, .. }) = own {
            match link.ask(call, link.client.get_data(&self.directory.node(name))).await {
                Ok((_, stat)) => self.node = Some(Node { name: name.clone(), czxid: stat.czxid }),
                Err(Failure::Refused(ZkError::NoNode)) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.uncertain = None;
        Ok(())
    }

    fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) && !self.condemned.iter().any(|condemned| condemned == name)
    }

    /// Whether another client's ticket is there, by its name.
    fn has_others(&self, queue: &[Ticket]) -> bool {
        queue.iter().any(|ticket| !self.is_own(&ticket.name) && layout::is_marked(&ticket.name))
    }

    fn read(&mut self, queue: &[Ticket]) -> Stand {
        let Some(node) = &self.node else { return Stand::Unknown };
        self.others = self.has_others(queue);
        let queue: Vec<&Ticket> =
            queue.iter().filter(|ticket| !self.passed_over.contains(&ticket.name)).collect();
        match queue.iter().position(|ticket| ticket.name == node.name) {
            Some(0) => {
                self.ahead = None;
                Stand::First { czxid: node.czxid }
            }
            Some(at) => {
                let ahead = queue[at - 1].name.clone();
                self.ahead = Some(ahead.clone());
                Stand::Behind { ahead }
            }
            None => {
                // Somebody has removed it.
                self.is_gone();
                Stand::Unknown
            }
        }
    }

    /// Removes what the owner has there, also what was revoked since, and answers what that was.
    pub(crate) async fn give_up(&mut self, link: &Link, call: &Call) -> Result<Release, Failure> {
        let was_going = self.is_going;
        let mut release = match (&self.node, self.uncertain) {
            (Some(node), None) => {
                let path = self.directory.node(&node.name);
                self.is_going = true;
                self.give_up_node(link, call, &path).await?
            }
            _ => self.give_up_all(link, call).await?,
        };
        // Nobody said that it was there the first time: it was removed by that.
        if was_going && release == Release::NotHeld {
            release = Release::Released { others: None };
        }
        (self.node, self.uncertain, self.ahead, self.is_going) = (None, None, None, false);
        Ok(release)
    }

    async fn give_up_node(&self, link: &Link, call: &Call, path: &str) -> Result<Release, Failure> {
        let deleting = link.client.delete(path, FIRST_VERSION);
        let looks = self.looks && !self.others;
        let listing = looks.then(|| link.client.list_children(self.directory.path()));
        let outcome = self.removed(link, call, path, link.ask(call, deleting).await).await?;
        let mut others = self.others.then_some(true);
        if let Some(listing) = listing {
            let children = match link.ask(call, listing).await {
                Ok(children) => children,
                // What matters is done.
                Err(_) => return Ok(outcome.into_release(others)),
            };
            let queue = layout::queue(children);
            others = Some(self.has_others(&queue));
            // A request that somehow came twice has left another one.
            for ghost in queue.iter().filter(|ticket| self.is_own(&ticket.name)) {
                self.remove(link, call, &self.directory.node(&ghost.name)).await?;
            }
        }
        Ok(outcome.into_release(others))
    }

    /// Of whatever may have been made by requests that were not answered.
    async fn give_up_all(&self, link: &Link, call: &Call) -> Result<Release, Failure> {
        let queue = self.directory.queue(link, call).await?;
        let others = self.has_others(&queue);
        let mut release = Release::NotHeld;
        for own in queue.iter().filter(|ticket| self.is_own(&ticket.name)) {
            let path = self.directory.node(&own.name);
            if self.remove(link, call, &path).await? == Removed::Yes {
                release = Release::Released { others: Some(others) };
            }
        }
        Ok(release)
    }

    async fn remove(&self, link: &Link, call: &Call, path: &str) -> Result<Removed, Failure> {
        let deleted = link.ask(call, link.client.delete(path, FIRST_VERSION)).await;
        self.removed(link, call, path, deleted).await
    }

    /// What has become of a node by its deletion.
    async fn removed(
        &self,
        link: &Link,
        call: &Call,
        path: &str,
        mut deleted: Result<(), Failure>,
    ) -> Result<Removed, Failure> {
        loop {
            match deleted {
                Ok(()) => return Ok(Removed::Yes),
                Err(Failure::Refused(ZkError::NoNode)) => return Ok(Removed::WasGone),
                Err(Failure::Refused(ZkError::BadVersion)) => {}
                Err(failure) => return Err(failure),
            }
            // Another client has written into it: it was revoked, or nothing that matters.
            match link.ask(call, link.client.get_data(path)).await {
                Ok((_, stat)) => {
                    deleted = link.ask(call, link.client.delete(path, Some(stat.version))).await;
                }
                Err(Failure::Refused(ZkError::NoNode)) => return Ok(Removed::WasGone),
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// What became of a node that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    Yes,
    WasGone,
}

impl Removed {
    fn into_release(self, others: Option<bool>) -> Release {
        match self {
            Removed::Yes => Release::Released { others },
            Removed::WasGone => Release::NotHeld,
        }
    }
}
