//! A queue per lock, and sessions that keep the places in it, as in etcd and ZooKeeper.
//!
//! The first place holds the lock. A session keeps everything that its client has. When it ends, nothing of it remains.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lock_core::driver::{Queueing, Revoked, When};
use lock_core::{Owner, OwnerBytes};

use super::{ClientId, Handled, Key, Server, token};
use crate::time::ServerTime;

mod messages;
mod places;

pub use messages::{Answer, Claimed, Moved, Request, SessionId, Standing};
use places::{Keeper, Place, Queues};

/// The server: sessions, and the queues of the locks that are held.
#[derive(Debug)]
pub struct QueueServer {
    /// The number of the last place that was taken, or session that was opened: one sequence numbers both.
    revision: u64,
    queues: Queues,
    /// Ordered, so that one seed makes one simulation.
    sessions: BTreeMap<SessionId, Session>,
    /// Places that stand for a revoked holder, and when they end.
    revoked_places: BTreeSet<(ServerTime, Claimed)>,
    /// No session and none of the `revoked_places` ends before this.
    next_expiry: Option<ServerTime>,
    writes: u64,
}

#[derive(Debug)]
struct Session {
    client: ClientId,
    timeout: Duration,
    ends: ServerTime,
    places: BTreeSet<Claimed>,
    tombstones: BTreeMap<Claimed, Tombstone>,
}

/// The remains of an owner whose attempts are to be refused.
#[derive(Clone, Copy, Debug, Default)]
struct Tombstone {
    /// Attempts up to this one are refused.
    serial: u64,
    /// The lock was revoked from this owner.
    revoked: bool,
}

/// The notifications to be pushed, with their clients.
type Pushes = Vec<(ClientId, Moved)>;

impl Server for QueueServer {
    type Request = Request;
    type Answer = Answer;
    type Push = Moved;

    fn handle(&mut self, now: ServerTime, from: ClientId, request: Request) -> Handled<Self> {
        let mut pushes = self.expire(now);
        let answer = match request {
            Request::Time => Answer::Done,
            Request::OpenSession { timeout } => self.open(now, from, timeout),
            Request::Heartbeat { session } => self.heartbeat(now, session),
            Request::CloseSession { session } => {
                self.end_session(session, &mut pushes);
                Answer::Done
            }
            Request::Attempt { key, owner, label, session, serial, waits } => {
                let kept_by = Keeper::Session(session);
                let place =
                    Place { owner, label, revision: 0, since: now, serial, kept_by, stands_for: None };
                self.attempt(key, place, session, waits)
            }
            Request::Release { key, owner, serial, defeat } => {
                self.leave_tombstone((owner, key.clone()), serial, defeat);
                self.release(from, &(owner, key), serial, &mut pushes)
            }
            Request::Revoke { key, holder, by, label, when } => {
                let kept_by = Keeper::Time(now);
                let successor =
                    Place { owner: by, label, revision: 0, since: now, serial: 0, kept_by, stands_for: None };
                self.revoke(key, &holder, successor, when, &mut pushes)
            }
            Request::Expire { key } => self.end_holder(&key, &mut pushes),
            Request::Inspect { key } => {
                let ends = |keeper| self.ends(keeper);
                Answer::Inspected(self.queues.inspect(&key, now, ends))
            }
            Request::List { beginning } => Answer::Listed(self.queues.list(&beginning)),
        };
        Handled { answer, pushes }
    }

    /// Notifies the owners right behind what ends, and the owners of what ends.
    fn expire(&mut self, now: ServerTime) -> Pushes {
        let mut pushes = Vec::new();
        if self.next_expiry.is_none_or(|at| at > now) {
            return pushes;
        }
        let over: Vec<_> = self.sessions.iter().filter(|(_, s)| s.ends <= now).map(|(id, _)| *id).collect();
        for session in over {
            self.end_session(session, &mut pushes);
        }
        while self.revoked_places.first().is_some_and(|(ends, _)| *ends <= now)
            && let Some((_, claimed)) = self.revoked_places.pop_first()
        {
            self.remove(&claimed, &mut pushes);
        }
        let sessions = self.sessions.values().map(|session| session.ends);
        self.next_expiry = sessions.chain(self.revoked_places.first().map(|(ends, _)| *ends)).min();
        pushes
    }

    fn next_expiry(&self) -> Option<ServerTime> {
        self.next_expiry
    }

    /// Does nothing: a session does not depend on a connection.
    fn hang_up(&mut self, _client: ClientId) {}

    fn writes(&self) -> u64 {
        self.writes
    }

    /// Counts places and tombstones. A session is its client's, not a lock's.
    fn kept(&self, _now: ServerTime) -> u64 {
        let tombstones = self.sessions.values().map(|session| session.tombstones.len());
        (self.queues.places() + tombstones.sum::<usize>()) as u64
    }

    /// None: one number counts for all names.
    fn tokens(&self) -> u64 {
        0
    }
}

impl QueueServer {
    /// Creates a server that begins at this time. Its tokens begin above it. So the tokens of a later process are
    /// higher than those of an earlier one, unless the clock was set back in between.
    pub fn new(began: ServerTime) -> QueueServer {
        QueueServer {
            revision: began.as_micros(),
            queues: Queues::default(),
            sessions: BTreeMap::new(),
            revoked_places: BTreeSet::new(),
            next_expiry: None,
            writes: 0,
        }
    }

    // ---- sessions ---------------------------------------------------------------------------------------------------

    fn open(&mut self, now: ServerTime, client: ClientId, timeout: Duration) -> Answer {
        let (id, ends) = (SessionId(self.next_revision()), now + timeout);
        let session = Session { client, timeout, ends, places: BTreeSet::new(), tombstones: BTreeMap::new() };
        self.sessions.insert(id, session);
        self.expires_at(ends);
        Answer::Opened(id)
    }

    fn heartbeat(&mut self, now: ServerTime, id: SessionId) -> Answer {
        let Some(session) = self.sessions.get_mut(&id) else { return Answer::NoSession };
        session.keep(now);
        let has = session.places.iter().filter_map(|claimed| {
            let standing = self.queues.standing(claimed)?;
            Some((claimed.clone(), standing))
        });
        let revoked = session.tombstones.iter().filter(|(_, tombstone)| tombstone.revoked);
        Answer::Kept(has.chain(revoked.map(|(claimed, _)| (claimed.clone(), Standing::Revoked))).collect())
    }

    fn end_session(&mut self, id: SessionId, pushes: &mut Pushes) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for claimed in session.places {
            self.remove(&claimed, pushes);
            pushes.push((session.client, Moved(claimed.0)));
        }
    }

    // ---- places -----------------------------------------------------------------------------------------------------

    fn attempt(&mut self, key: Key, mut place: Place, id: SessionId, waits: Queueing) -> Answer {
        let claimed = (place.owner, key);
        let Some(session) = self.sessions.get_mut(&id) else { return Answer::NoSession };
        session.keep(place.since);
        if session.tombstones.get(&claimed).is_some_and(|tombstone| place.serial <= tombstone.serial) {
            return Answer::Refused;
        }
        // The owner asks for the lock anew. From now on its release is for the new place.
        self.queues.forbid_release(&claimed);
        match self.queues.ask_again(&claimed, place.serial) {
            Some(Standing::Holds(token)) => return Answer::Granted(token),
            Some(_) => return Answer::Busy { queued: true },
            None => {}
        }
        let free = self.queues.first(&claimed.1).is_none();
        if !free && waits == Queueing::No {
            return Answer::Busy { queued: false };
        }
        // The revoke was of the previous place.
        if let Some(tombstone) = session.tombstones.get_mut(&claimed) {
            tombstone.revoked = false;
        }
        session.places.insert(claimed.clone());
        place.revision = self.next_revision();
        let token = token(place.revision);
        self.queues.append(claimed.1, place);
        self.writes += 1;
        if free { Answer::Granted(token) } else { Answer::Busy { queued: true } }
    }

    /// Leaves a tombstone in the session, because attempts may still arrive: it refuses them.
    fn leave_tombstone(&mut self, claimed: Claimed, serial: u64, session: Option<SessionId>) {
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.tombstones.entry(claimed).or_default().raise(serial);
            self.writes += 1;
        }
    }

    fn release(&mut self, from: ClientId, claimed: &Claimed, serial: u64, pushes: &mut Pushes) -> Answer {
        let removed = match (self.queues.serial(claimed), self.queues.successor(claimed)) {
            (Some(last), _) => last <= serial && self.remove(claimed, pushes),
            (None, Some((successor, last))) => {
                last <= serial && self.remove_successor(successor, &claimed.1, pushes)
            }
            (None, None) => false,
        };
        if !removed {
            return Answer::NotHeld;
        }
        let client = |keeper| self.client(keeper);
        Answer::Released {
            others: self.queues.clients(&claimed.1, client).any(|client| client != Some(from)),
        }
    }

    fn revoke(
        &mut self,
        key: Key,
        holder: &OwnerBytes,
        successor: Place,
        when: When,
        pushes: &mut Pushes,
    ) -> Answer {
        let Some(first) = self.queues.first(&key).filter(|first| first.shown() == *holder) else {
            return Answer::Revoked(Revoked::NotHeld);
        };
        let ((owner, kept_by), serial) = (first.kept(), first.serial);
        let stands_for = Some(first.stands_for.unwrap_or(owner));
        let (now, ends) = (successor.since, self.ends(kept_by));
        let claimed = (owner, key);
        if let Keeper::Session(id) = kept_by
            && let Some(session) = self.sessions.get_mut(&id)
        {
            let tombstone = session.tombstones.entry(claimed.clone()).or_default();
            tombstone.raise(serial);
            tombstone.revoked = true;
            session.places.remove(&claimed);
            pushes.push((session.client, Moved(owner)));
        }
        self.revoked_places.remove(&(ends, claimed.clone()));
        if when == When::Now {
            self.remove(&claimed, pushes);
            return Answer::Revoked(Revoked::Free);
        }
        self.revoked_places.insert((ends, (successor.owner, claimed.1.clone())));
        let successor = Place { kept_by: Keeper::Time(ends), stands_for, serial, ..successor };
        self.queues.replace_first(&claimed.1, successor);
        self.expires_at(ends);
        self.writes += 1;
        Answer::Revoked(Revoked::FreeIn(ends.since(now)))
    }

    /// Ends the lease of the lock's holder: in this family, its session.
    fn end_holder(&mut self, key: &Key, pushes: &mut Pushes) -> Answer {
        match self.queues.first(key).map(Place::kept) {
            None => return Answer::NotHeld,
            Some((_, Keeper::Session(session))) => self.end_session(session, pushes),
            Some((owner, Keeper::Time(_))) => _ = self.remove_successor(owner, key, pushes),
        }
        Answer::Done
    }

    /// Removes the place that stands for a revoked holder.
    fn remove_successor(&mut self, successor: Owner, key: &Key, pushes: &mut Pushes) -> bool {
        let claimed = (successor, key.clone());
        self.revoked_places.retain(|(_, place)| *place != claimed);
        self.remove(&claimed, pushes)
    }

    /// Removes a place, if there is one, and notifies the owner of the place right behind it. Returns whether there was
    /// one.
    fn remove(&mut self, claimed: &Claimed, pushes: &mut Pushes) -> bool {
        let Some((removed, behind)) = self.queues.remove(claimed) else { return false };
        if let Keeper::Session(id) = removed.kept_by
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.places.remove(claimed);
        }
        if let Some((owner, kept_by)) = behind
            && let Some(client) = self.client(kept_by)
        {
            pushes.push((client, Moved(owner)));
        }
        self.writes += 1;
        true
    }

    // ---- sessions and places ----------------------------------------------------------------------------------------

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn expires_at(&mut self, at: ServerTime) {
        self.next_expiry = Some(self.next_expiry.map_or(at, |next| next.min(at)));
    }

    fn ends(&self, kept_by: Keeper) -> ServerTime {
        match kept_by {
            Keeper::Time(ends) => ends,
            // A session that is gone has no places any more.
            Keeper::Session(id) => {
                self.sessions.get(&id).map_or(ServerTime::from_micros(0), |session| session.ends)
            }
        }
    }

    fn client(&self, kept_by: Keeper) -> Option<ClientId> {
        match kept_by {
            Keeper::Time(_) => None,
            Keeper::Session(id) => self.sessions.get(&id).map(|session| session.client),
        }
    }
}

impl Session {
    fn keep(&mut self, now: ServerTime) {
        self.ends = self.ends.max(now + self.timeout);
    }
}

impl Tombstone {
    fn raise(&mut self, serial: u64) {
        self.serial = serial.max(self.serial);
    }
}
