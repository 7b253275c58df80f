//! The nodes that a session has to remove, because their claims don't.

use lock_core::Instant;

use super::Session;
use crate::place::Place;

/// The nodes that a session has to remove.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    revoked: Vec<RevokedNode>,
    abandoned: Vec<Abandoned>,
}

/// The node of a revoked holder that has been told. The session removes it at the holder's deadline.
#[derive(Debug)]
struct RevokedNode {
    path: String,
    at: Instant,
    /// The link on which its deletion was last requested.
    asked_on: u64,
}

/// The place of a claim that was dropped without a release.
#[derive(Debug)]
struct Abandoned {
    place: Place,
    /// The link on which its removal was last requested.
    asked_on: u64,
}

impl Leftovers {
    pub(super) fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.abandoned.is_empty()
    }
}

impl Session {
    // ---- for claims -------------------------------------------------------------------------------------------------

    /// Lets the session remove the node of a revoked holder at the holder's deadline.
    pub(crate) fn remove_at_deadline(&self, path: String) {
        let at = self.ends();
        let mut members = self.members();
        if members.leftovers.revoked.iter().all(|revoked| revoked.path != path) {
            members.leftovers.revoked.push(RevokedNode { path, at, asked_on: 0 });
        }
        drop(members);
        self.left.notify_one();
    }

    /// Lets the session remove the place of a claim that was dropped without a release.
    pub(crate) fn add_abandoned(&self, place: Place) {
        self.members().leftovers.abandoned.push(Abandoned { place, asked_on: 0 });
        self.left.notify_one();
    }

    // ---- for the task that keeps it ---------------------------------------------------------------------------------

    /// Returns when the next revoked node has to be deleted.
    pub(crate) fn next_removal(&self, link: u64) -> Option<Instant> {
        self.members().leftovers.revoked.iter().filter(|node| node.asked_on != link).map(|node| node.at).min()
    }

    /// Returns the revoked nodes that have to be deleted by `now`, each of them once on a link.
    pub(crate) fn due_removals(&self, link: u64, now: Instant) -> Vec<String> {
        let mut members = self.members();
        let due = members.leftovers.revoked.iter_mut().filter(|node| node.asked_on != link && node.at <= now);
        due.map(|node| {
            node.asked_on = link;
            node.path.clone()
        })
        .collect()
    }

    pub(crate) fn forget_revoked(&self, path: &str) {
        self.members().leftovers.revoked.retain(|node| node.path != path);
    }

    /// Returns the places of dropped claims that have to be removed, each of them once on a link. A node that may have
    /// been created on this link is looked for on the next one.
    pub(crate) fn due_abandoned(&self, link: u64) -> Vec<Place> {
        let mut members = self.members();
        let due = members.leftovers.abandoned.iter_mut().filter(|abandoned| abandoned.asked_on != link);
        let (later, now): (Vec<_>, Vec<_>) =
            due.partition(|abandoned| abandoned.place.uncertain_up_to() >= link);
        if !later.is_empty() {
            self.cut(link);
        }
        now.into_iter()
            .map(|abandoned| {
                abandoned.asked_on = link;
                abandoned.place.clone()
            })
            .collect()
    }

    pub(crate) fn forget_abandoned(&self, place: &Place) {
        self.members().leftovers.abandoned.retain(|abandoned| !abandoned.place.is_of(place));
    }
}
