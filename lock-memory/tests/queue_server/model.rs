//! A queue server of one lock in its simplest form.

use std::collections::{BTreeMap, HashMap};

use lock_core::Owner;
use lock_core::driver::{Queueing, Revoked, When};
use lock_memory::ServerTime;
use lock_memory::server::queue::{Answer, Request, SessionId, Standing};

use crate::common::{TTL, owner, shown};

/// The operator that revokes locks.
pub(crate) const OPERATOR: u64 = 1000;

/// For each place: its owner, and the place in front of it.
pub(crate) type Order = BTreeMap<u64, (u64, Option<u64>)>;

/// Everything is a list that is searched.
#[derive(Default)]
pub(crate) struct Model {
    sessions: Vec<(SessionId, ServerTime)>,
    queue: Vec<Placed>,
    /// For each session and owner: the serial up to which attempts are refused, and whether the owner was revoked.
    tombstones: HashMap<(SessionId, u64), (u64, bool)>,
    last_token: u64,
    places: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Placed {
    /// Numbers the places, whichever owner has them.
    place: u64,
    n: u64,
    token: u64,
    serial: u64,
    kept_by: Result<SessionId, ServerTime>,
    /// The owner that may release what was revoked from it.
    stands_for: Option<u64>,
}

impl Model {
    /// Checks an answer of the server, and does the same as it.
    pub(crate) fn check(&mut self, now: ServerTime, n: u64, request: &Request, answer: &Answer) {
        self.expire(now);
        match request {
            Request::OpenSession { .. } => {
                let Answer::Opened(id) = answer else { panic!("{answer:?}") };
                assert!(self.sessions.iter().all(|(session, _)| session < id), "used twice");
                self.sessions.push((*id, now + TTL));
            }
            Request::Heartbeat { session } => {
                let alive = self.keep(now, *session);
                match answer {
                    Answer::Kept(has) => assert_eq!((alive, seen(has)), (true, self.has(*session))),
                    other => assert!(!alive && matches!(other, Answer::NoSession), "{other:?}"),
                }
            }
            Request::CloseSession { session } => {
                self.sessions.retain(|(id, _)| id != session);
                self.expire(now);
            }
            Request::Attempt { session, serial, waits, .. } => {
                self.attempted(now, n, *session, *serial, *waits, answer);
            }
            Request::Release { serial, defeat, .. } => {
                if let Some(session) = defeat
                    && self.ends(Ok(*session)).is_some()
                {
                    let tombstone = self.tombstones.entry((*session, n)).or_default();
                    tombstone.0 = tombstone.0.max(*serial);
                }
                let stands = self.queue.iter().any(|p| p.n == n);
                let its =
                    |p: &Placed| (p.n == n || !stands && p.stands_for == Some(n)) && p.serial <= *serial;
                let had = self.queue.iter().any(its);
                self.queue.retain(|p| !its(p));
                assert_eq!(had, matches!(answer, Answer::Released { .. }), "{answer:?}");
            }
            Request::Revoke { holder, when, .. } => {
                let n = if *holder == shown(OPERATOR) { OPERATOR } else { n };
                self.revoked(now, n, *when, answer);
            }
            other => panic!("not asked: {other:?}"),
        }
    }

    /// Returns for each place its owner, and the place in front of it.
    pub(crate) fn order(&self) -> Order {
        let front = |at: usize| at.checked_sub(1).map(|at| self.queue[at].place);
        self.queue.iter().enumerate().map(|(at, p)| (p.place, (p.n, front(at)))).collect()
    }

    fn ends(&self, kept_by: Result<SessionId, ServerTime>) -> Option<ServerTime> {
        match kept_by {
            Ok(id) => self.sessions.iter().find(|(session, _)| *session == id).map(|(_, ends)| *ends),
            Err(ends) => Some(ends),
        }
    }

    fn expire(&mut self, now: ServerTime) {
        self.sessions.retain(|(_, ends)| *ends > now);
        let queue = std::mem::take(&mut self.queue);
        self.queue =
            queue.into_iter().filter(|p| self.ends(p.kept_by).is_some_and(|ends| ends > now)).collect();
        self.tombstones.retain(|(id, _), _| self.sessions.iter().any(|(session, _)| session == id));
    }

    fn keep(&mut self, now: ServerTime, id: SessionId) -> bool {
        let session = self.sessions.iter_mut().find(|(session, _)| *session == id);
        session.map(|(_, ends)| *ends = (*ends).max(now + TTL)).is_some()
    }

    fn attempted(
        &mut self,
        now: ServerTime,
        n: u64,
        id: SessionId,
        serial: u64,
        waits: Queueing,
        answer: &Answer,
    ) {
        if !self.keep(now, id) {
            return assert!(matches!(answer, Answer::NoSession), "{answer:?}");
        }
        if self.tombstones.get(&(id, n)).is_some_and(|(barred, _)| serial <= *barred) {
            return assert!(matches!(answer, Answer::Refused), "{answer:?}");
        }
        // The owner can no longer release what it had before.
        let left = self.queue.iter_mut().filter(|p| p.stands_for == Some(n));
        left.for_each(|p| p.stands_for = None);
        if !self.queue.iter().any(|p| p.n == n) {
            if waits == Queueing::No && !self.queue.is_empty() {
                return assert!(matches!(answer, Answer::Busy { queued: false }), "{answer:?}");
            }
            // The token is not known before the grant.
            self.places += 1;
            let (place, kept_by, stands_for) = (self.places, Ok(id), None);
            self.queue.push(Placed { place, n, token: 0, serial, kept_by, stands_for });
            // The revoke was of the previous place.
            if let Some((_, revoked)) = self.tombstones.get_mut(&(id, n)) {
                *revoked = false;
            }
        }
        let at = self.queue.iter().position(|p| p.n == n).expect("just placed");
        let place = &mut self.queue[at];
        place.serial = place.serial.max(serial);
        match answer {
            Answer::Granted(token) => {
                assert_eq!(at, 0, "granted behind others");
                if place.token == 0 {
                    assert!(token.get() > self.last_token);
                    (place.token, self.last_token) = (token.get(), token.get());
                }
                assert_eq!(place.token, token.get());
            }
            Answer::Busy { queued: true } => assert_ne!(at, 0, "busy in front"),
            other => panic!("{other:?}"),
        }
    }

    fn revoked(&mut self, now: ServerTime, n: u64, when: When, answer: &Answer) {
        let Answer::Revoked(revoked) = answer else { panic!("{answer:?}") };
        let Some(first) = self.queue.first().copied().filter(|p| p.n == n) else {
            return assert_eq!(*revoked, Revoked::NotHeld);
        };
        if let Ok(id) = first.kept_by {
            let tombstone = self.tombstones.entry((id, n)).or_default();
            *tombstone = (tombstone.0.max(first.serial), true);
        }
        let ends = self.ends(first.kept_by).expect("it is alive");
        match when {
            When::Now => {
                assert_eq!(*revoked, Revoked::Free);
                self.queue.remove(0);
            }
            When::HoldersDeadline => {
                assert_eq!(*revoked, Revoked::FreeIn(ends.since(now)));
                self.queue[0] = Placed { n: OPERATOR, kept_by: Err(ends), stands_for: Some(n), ..first };
            }
        }
    }

    /// Returns for each owner whether it holds, waits, or was revoked.
    fn has(&self, id: SessionId) -> BTreeMap<Owner, &'static str> {
        let placed = self.queue.iter().enumerate().filter(|(_, p)| p.kept_by == Ok(id));
        let places = placed.map(|(at, p)| (owner(p.n), if at == 0 { "holds" } else { "waits" }));
        let revoked =
            self.tombstones.iter().filter(|((session, _), (_, revoked))| *session == id && *revoked);
        places.chain(revoked.map(|((_, n), _)| (owner(*n), "revoked"))).collect()
    }
}

fn seen(has: &BTreeMap<(Owner, lock_memory::server::Key), Standing>) -> BTreeMap<Owner, &'static str> {
    let word = |standing: &Standing| match standing {
        Standing::Holds(_) => "holds",
        Standing::Waits => "waits",
        Standing::Revoked => "revoked",
    };
    has.iter().map(|((owner, _), standing)| (*owner, word(standing))).collect()
}
