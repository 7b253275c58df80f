//! The queues: which owner holds each lock, and the order of the waiters.

use std::collections::{HashMap, VecDeque};

use lock_core::driver::{Entry, Inspection};
use lock_core::{Label, Owner, OwnerBytes};

use super::{Claimed, ClientId, SessionId, Standing};
use crate::server::{Key, shown, token};
use crate::time::ServerTime;

/// A place in a queue.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) owner: Owner,
    pub(super) label: Label,
    pub(super) revision: u64,
    pub(super) since: ServerTime,
    /// The serial of the owner's last attempt. If the place stands for a revoked holder, of that holder's last attempt.
    pub(super) serial: u64,
    pub(super) kept_by: Keeper,
    /// The owner from which the lock was revoked. It may release the lock before its deadline.
    pub(super) stands_for: Option<Owner>,
}

/// The life of a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keeper {
    /// As long as its session.
    Session(SessionId),
    /// Until this time: the place stands for a revoked holder.
    Time(ServerTime),
}

/// The queues of the locks that are held. The first place holds the lock; no queue is empty.
#[derive(Debug, Default)]
pub(super) struct Queues(HashMap<Key, VecDeque<Place>>);

impl Queues {
    pub(super) fn first(&self, key: &Key) -> Option<&Place> {
        self.0.get(key)?.front()
    }

    pub(super) fn standing(&self, (owner, key): &Claimed) -> Option<Standing> {
        let queue = self.0.get(key)?;
        let at = queue.iter().position(|place| place.owner == *owner)?;
        Some(if at == 0 { Standing::Holds(token(queue[at].revision)) } else { Standing::Waits })
    }

    /// Returns the standing of an owner that has a place already, and notes the serial of its new attempt.
    pub(super) fn ask_again(&mut self, claimed: &Claimed, serial: u64) -> Option<Standing> {
        let standing = self.standing(claimed)?;
        let mut places = self.0.get_mut(&claimed.1)?.iter_mut();
        let place = places.find(|place| place.owner == claimed.0)?;
        place.serial = serial.max(place.serial);
        Some(standing)
    }

    /// Returns the serial of the owner's last attempt, if it has a place.
    pub(super) fn serial(&self, (owner, key): &Claimed) -> Option<u64> {
        self.0.get(key)?.iter().find(|place| place.owner == *owner).map(|place| place.serial)
    }

    pub(super) fn append(&mut self, key: Key, place: Place) {
        self.0.entry(key).or_default().push_back(place);
    }

    /// Gives the first place, with its token, to another owner.
    pub(super) fn replace_first(&mut self, key: &Key, successor: Place) {
        if let Some(first) = self.0.get_mut(key).and_then(VecDeque::front_mut) {
            *first = Place { revision: first.revision, ..successor };
        }
    }

    /// Returns the owner whose place stands for this one since a revoke, and the serial of the attempt that had got the
    /// lock.
    pub(super) fn successor(&self, (owner, key): &Claimed) -> Option<(Owner, u64)> {
        let first = self.first(key)?;
        (first.stands_for == Some(*owner)).then_some((first.owner, first.serial))
    }

    /// Ends the right of this owner to release the place that stands for it since a revoke.
    pub(super) fn forbid_release(&mut self, (owner, key): &Claimed) {
        if let Some(first) = self.0.get_mut(key).and_then(VecDeque::front_mut)
            && first.stands_for == Some(*owner)
        {
            first.stands_for = None;
        }
    }

    /// Removes a place. Returns it, and the owner of the place right behind it.
    pub(super) fn remove(&mut self, (owner, key): &Claimed) -> Option<(Place, Option<(Owner, Keeper)>)> {
        let queue = self.0.get_mut(key)?;
        let at = queue.iter().position(|place| place.owner == *owner)?;
        let removed = queue.remove(at)?;
        let behind = queue.get(at).map(Place::kept);
        if queue.is_empty() {
            self.0.remove(key);
        }
        Some((removed, behind))
    }

    /// Returns how many places there are in all queues.
    pub(super) fn places(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    /// Returns for each place of a queue the client that it belongs to.
    pub(super) fn clients(
        &self,
        key: &Key,
        client: impl Fn(Keeper) -> Option<ClientId>,
    ) -> impl Iterator<Item = Option<ClientId>> {
        self.0.get(key).into_iter().flatten().map(move |place| client(place.kept_by))
    }

    /// Returns the locks whose keys begin with `beginning`.
    pub(super) fn list(&self, beginning: &str) -> Vec<Key> {
        self.0.keys().filter(|key| key.starts_with(beginning)).cloned().collect()
    }

    pub(super) fn inspect(
        &self,
        key: &Key,
        now: ServerTime,
        ends: impl Fn(Keeper) -> ServerTime,
    ) -> Inspection {
        let entry = |place: &Place| {
            let mut entry = Entry::new(place.shown());
            entry.label = Some(place.label.clone());
            entry.token = Some(token(place.revision));
            entry.since = Some(now.since(place.since));
            entry.expires_in = Some(ends(place.kept_by).since(now));
            entry
        };
        let mut entries = self.0.get(key).into_iter().flatten().map(entry);
        Inspection::new(entries.next(), Some(entries.collect()))
    }
}

impl Place {
    pub(super) fn shown(&self) -> OwnerBytes {
        shown(self.owner)
    }

    /// Returns the place's owner, and how long the place lasts.
    pub(super) fn kept(&self) -> (Owner, Keeper) {
        (self.owner, self.kept_by)
    }
}
