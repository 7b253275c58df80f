//! An owner leaves the queue: it removes its nodes.

use lock_core::driver::Release;
use lock_core::toolkit::Call;
use zookeeper_client::Error as ZkError;

use super::Place;
use crate::layout;
use crate::link::{Failure, Link};

/// The version of a node's data that has not been changed since the node was created.
const FIRST_VERSION: Option<i32> = Some(0);

impl Place {
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

/// The outcome of removing a node.
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
