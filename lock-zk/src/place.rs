//! An owner's place in a lock's queue: its node, and what is known about it.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::Owner;
use lock_core::driver::{Call, Queueing, Release, Request};
use zookeeper_client::Error as ZkError;

use crate::directory::Directory;
use crate::kind::Kind;
use crate::layout::{self, Ticket};
use crate::link::{Failure, Link};

/// An owner's place in a lock's queue, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) directory: Directory,
    /// What the names of the owner's nodes begin with.
    prefix: String,
    node: Option<Node>,
    /// A node may have been created on the link of this number, or on an earlier one, without an answer.
    uncertain: Option<u64>,
    /// The owner's nodes that were revoked: they no longer give it a place.
    revoked: Vec<String>,
    /// Nodes that are no tickets.
    passed_over: BTreeSet<String>,
    /// The node right before the owner's own at the last look.
    ahead: Option<String>,
    /// Whether other tickets were seen at the last look.
    others: bool,
    /// Whether the release looks for other tickets if none was seen.
    looks: bool,
    /// Whether the directory did not exist at the last look.
    is_missing: bool,
    /// Whether the removal of the node was sent and not answered.
    is_going: bool,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    czxid: i64,
}

/// What a look at the queue has shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The owner's node is the first one. This transaction created it.
    First { czxid: i64 },
    /// This node is right before the owner's node.
    Behind { ahead: String },
    /// The owner's node is the first one, but it was revoked: it no longer gives the owner a place.
    Revoked { path: String },
    /// Another client holds the lock, and no place is wanted.
    Outside,
    /// The queue has to be looked at again.
    Unknown,
}

/// The version of a node's data that has not been changed since the node was created.
const FIRST_VERSION: Option<i32> = Some(0);

impl Place {
    pub(crate) fn new(directory: Directory, owner: Owner) -> Place {
        let prefix = layout::node_prefix(&owner);
        let (node, uncertain, revoked, ahead) = (None, None, Vec::new(), None);
        // One of eight releases does: often enough for a process to know that no other process waits.
        let looks = owner.as_bytes()[0].is_multiple_of(8);
        Place {
            directory,
            prefix,
            node,
            uncertain,
            revoked,
            passed_over: BTreeSet::new(),
            ahead,
            others: false,
            looks,
            is_missing: false,
            is_going: false,
        }
    }

    /// Forgets the owner's nodes: none is on the server, and none will be.
    pub(crate) fn forget(&mut self) {
        (self.node, self.uncertain, self.ahead) = (None, None, None);
        (self.others, self.is_going) = (false, false);
        self.revoked.clear();
    }

    /// Returns what the owner may have on the server, so that the session removes it, and forgets it.
    pub(crate) fn take(&mut self) -> Place {
        let taken = self.clone();
        self.forget();
        taken
    }

    /// Whether both are places of the same owner.
    pub(crate) fn is_of(&self, other: &Place) -> bool {
        self.prefix == other.prefix
    }

    /// Records that this node is no ticket, and is not waited for.
    pub(crate) fn pass_over(&mut self, name: &str) {
        self.passed_over.insert(name.to_owned());
    }

    /// Records that the owner's node does not exist any more.
    pub(crate) fn forget_node(&mut self) {
        (self.node, self.ahead) = (None, None);
    }

    /// Gives up the owner's node, which was revoked, and returns its path. Others stay behind it until the session
    /// removes it.
    fn give_up_revoked(&mut self) -> Option<String> {
        let Node { name, .. } = self.node.take()?;
        let path = self.directory.node(&name);
        self.revoked.push(name);
        Some(path)
    }

    /// Whether the owner may have a node on the server, now or later.
    pub(crate) fn may_be_there(&self) -> bool {
        self.node.is_some() || self.uncertain.is_some()
    }

    /// Returns the number of the last link on which a node may be created without an answer; 0 if there is none.
    pub(crate) fn uncertain_up_to(&self) -> u64 {
        self.uncertain.unwrap_or(0)
    }

    pub(crate) fn path(&self) -> Option<String> {
        self.node.as_ref().map(|node| self.directory.node(&node.name))
    }

    /// Returns the node that was right before the owner's node at the last look.
    pub(crate) fn ahead(&self) -> Option<&str> {
        self.node.as_ref().and(self.ahead.as_deref())
    }

    /// Looks at the queue. If a place is wanted and there is none, takes one first.
    pub(crate) async fn find_position(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Position, Failure> {
        if self.uncertain.is_some() {
            self.find(link, call).await?;
        }
        let queue = match (&self.node, request.waits) {
            (Some(node), _) => return self.look_again(link, call, &self.directory.node(&node.name)).await,
            (None, Queueing::Queued) => match self.enter(link, call, request, timeout).await? {
                Some(queue) => queue,
                None => return Ok(Position::Unknown),
            },
            (None, Queueing::No) => {
                let queue = self.directory.find_queue(link, call).await?;
                self.is_missing = queue.is_none();
                if self.is_held(link, call, &queue.unwrap_or_default()).await? {
                    return Ok(Position::Outside);
                }
                match self.enter(link, call, request, timeout).await? {
                    Some(queue) => queue,
                    None => return Ok(Position::Unknown),
                }
            }
        };
        let position = self.read(&queue);
        if request.waits == Queueing::No && matches!(position, Position::Behind { .. }) {
            // Another client was faster.
            self.give_up(link, call).await?;
            self.forget();
            return Ok(Position::Outside);
        }
        Ok(position)
    }

    /// Whether there is a ticket in this queue.
    async fn is_held(&mut self, link: &Link, call: &Call, queue: &[Ticket]) -> Result<bool, Failure> {
        for Ticket { name, .. } in queue {
            let path = self.directory.node(name);
            let kind = match link.ask(call, link.client.get_data(&path)).await {
                Ok((_, stat)) => Kind::of(name, &stat),
                Err(Failure::Refused(ZkError::NoNode)) => continue,
                // This user may not read it. By its name it counts as a ticket.
                Err(Failure::Refused(ZkError::NoAuth)) => Kind::Ticket,
                Err(failure) => return Err(failure),
            };
            match kind {
                Kind::Ticket => return Ok(true),
                Kind::Other => self.pass_over(name),
                Kind::Persistent => return Err(Failure::Persistent(path)),
            }
        }
        Ok(false)
    }

    /// Looks at the queue and at the owner's node in it, in one round trip.
    async fn look_again(&mut self, link: &Link, call: &Call, path: &str) -> Result<Position, Failure> {
        let listing = link.client.list_children(self.directory.path());
        let reading = link.client.get_data(path);
        let listed = link.ask(call, listing).await;
        let queue = self.directory.sort(link, call, listed).await?;
        let position = self.read(&queue);
        if let Position::First { .. } = position {
            match link.ask(call, reading).await {
                Ok((data, _)) if !layout::is_revoked(&data) => {}
                Ok(_) => {
                    return Ok(self
                        .give_up_revoked()
                        .map_or(Position::Unknown, |path| Position::Revoked { path }));
                }
                Err(Failure::Refused(ZkError::NoNode)) => {
                    self.forget_node();
                    return Ok(Position::Unknown);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(position)
    }

    /// Creates the node and lists the directory in one round trip. Also creates the directory where it is known to be
    /// missing. Returns `None` if it has to be done again.
    async fn enter(
        &mut self,
        link: &Link,
        call: &Call,
        request: &Request,
        timeout: Duration,
    ) -> Result<Option<Vec<Ticket>>, Failure> {
        let (path, data) =
            (self.directory.node_prefix(&request.owner), layout::data(&request.label, timeout));
        // From here on the request is on its way, even if this future is dropped.
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
                    self.directory.handle_made(link, call, link.ask(call, making).await).await?;
                }
                self.is_missing = true;
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let listed = link.ask(call, listing).await;
        self.directory.sort(link, call, listed).await.map(Some)
    }

    /// Looks for the node whose creation was not answered, on a later link: there it exists now, or never will.
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
        name.starts_with(&self.prefix) && !self.revoked.iter().any(|revoked| revoked == name)
    }

    /// Whether there is a ticket of another owner, by its name.
    fn has_others(&self, queue: &[Ticket]) -> bool {
        queue.iter().any(|ticket| !self.is_own(&ticket.name) && layout::is_marked(&ticket.name))
    }

    fn read(&mut self, queue: &[Ticket]) -> Position {
        let Some(node) = &self.node else { return Position::Unknown };
        self.others = self.has_others(queue);
        let queue: Vec<&Ticket> =
            queue.iter().filter(|ticket| !self.passed_over.contains(&ticket.name)).collect();
        match queue.iter().position(|ticket| ticket.name == node.name) {
            Some(0) => {
                self.ahead = None;
                Position::First { czxid: node.czxid }
            }
            Some(at) => {
                let ahead = queue[at - 1].name.clone();
                self.ahead = Some(ahead.clone());
                Position::Behind { ahead }
            }
            None => {
                // Another client has removed the node.
                self.forget_node();
                Position::Unknown
            }
        }
    }

    /// Removes the owner's node, also if it was revoked since, and returns the outcome of the release.
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
        // The first removal had no answer, and has removed the node.
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
                // The node is removed; the list is not needed for that.
                Err(_) => return Ok(outcome.into_release(others)),
            };
            let queue = layout::queue(children);
            others = Some(self.has_others(&queue));
            // A request that arrived twice has left another node.
            for duplicate in queue.iter().filter(|ticket| self.is_own(&ticket.name)) {
                self.remove(link, call, &self.directory.node(&duplicate.name)).await?;
            }
        }
        Ok(outcome.into_release(others))
    }

    /// Removes all nodes that requests without an answer may have created.
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

    /// Returns what a deletion did to a node. Repeats it if another client has changed the node.
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
            // Another client has changed its data: it was revoked, or the change does not matter.
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
