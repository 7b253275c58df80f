//! An owner's place in a lock's queue: its node, and what is known about it.

mod entering;
mod leaving;

use std::collections::BTreeSet;

use lock_core::Owner;

use crate::directory::Directory;
use crate::layout::{self, Ticket};

/// An owner's place in a lock's queue, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) directory: Directory,
    /// The beginning of the names of the owner's nodes.
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
    /// Other tickets were seen at the last look.
    others: bool,
    /// The release looks for other tickets if none was seen.
    looks: bool,
    /// The directory did not exist at the last look.
    is_missing: bool,
    /// The removal of the node was sent and not answered.
    is_going: bool,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    czxid: i64,
}

/// The owner's queue position, as a look at the queue shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The owner's node is the first one. This transaction created it.
    First { czxid: i64 },
    /// The owner waits behind the node right before its own.
    Behind { ahead: String },
    /// The owner's node is the first one, but it was revoked: it no longer gives the owner a place.
    Revoked { path: String },
    /// Another client holds the lock, and no place is wanted.
    Outside,
    /// The queue has to be looked at again.
    Unknown,
}

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

    /// Returns whether both are places of the same owner.
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

    /// Returns whether the owner may have a node on the server, now or later.
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

    fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) && !self.revoked.iter().any(|revoked| revoked == name)
    }

    /// Returns whether there is a ticket of another owner, by its name.
    fn has_others(&self, queue: &[Ticket]) -> bool {
        queue.iter().any(|ticket| !self.is_own(&ticket.name) && layout::is_marked(&ticket.name))
    }
}
