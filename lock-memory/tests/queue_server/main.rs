//! The rules of the queue server, one by one, and all of them against a simpler model.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use common::{A, B, NOW, SECOND, SplitMix, TTL, owner, shown};
use lock_core::driver::{Inspection, Queueing, Revoked, When};
use lock_core::{Label, Owner, OwnerBytes};
use lock_memory::ServerTime;
use lock_memory::server::queue::{Answer, Moved, QueueServer, Request, SessionId, Standing};
use lock_memory::server::{ClientId, Handled, Server};

fn server() -> QueueServer {
    QueueServer::new(NOW)
}

fn open(server: &mut QueueServer, now: ServerTime, client: ClientId) -> SessionId {
    match server.handle(now, client, Request::OpenSession { timeout: TTL }).answer {
        Answer::Opened(session) => session,
        other => panic!("no session: {other:?}"),
    }
}

fn numbered(n: u64, session: SessionId, serial: u64, waits: Queueing) -> Request {
    let (key, owner, label) = ("n".into(), owner(n), Label::new("a test"));
    Request::Attempt { key, owner, label, session, serial, waits }
}

fn attempt(n: u64, session: SessionId) -> Request {
    numbered(n, session, 1, Queueing::Queued)
}

fn release_up_to(n: u64, serial: u64, defeat: Option<SessionId>) -> Request {
    Request::Release { key: "n".into(), owner: owner(n), serial, defeat }
}

fn release(n: u64) -> Request {
    release_up_to(n, u64::MAX, None)
}

fn revoke(holder: OwnerBytes, by: u64, when: When) -> Request {
    Request::Revoke { key: "n".into(), holder, by: owner(by), label: Label::new("an operator"), when }
}

fn ask(server: &mut QueueServer, now: ServerTime, request: Request) -> Answer {
    server.handle(now, A, request).answer
}

fn granted(answer: Answer) -> u64 {
    match answer {
        Answer::Granted(token) => token.get(),
        other => panic!("not granted: {other:?}"),
    }
}

fn inspect(server: &mut QueueServer, now: ServerTime) -> Inspection {
    match ask(server, now, Request::Inspect { key: "n".into() }) {
        Answer::Inspected(inspection) => inspection,
        other => panic!("not inspected: {other:?}"),
    }
}

/// Returns what the session has, as the answer to its heartbeat tells.
fn has(server: &mut QueueServer, now: ServerTime, session: SessionId) -> BTreeMap<Owner, Standing> {
    match ask(server, now, Request::Heartbeat { session }) {
        Answer::Kept(has) => has.into_iter().map(|((owner, _), standing)| (owner, standing)).collect(),
        other => panic!("not kept: {other:?}"),
    }
}

#[test]
fn places_are_taken_in_order_and_tokens_rise() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    let first = granted(ask(&mut server, NOW, attempt(1, a)));
    assert!(first > NOW.as_micros());
    for n in [2, 3] {
        assert!(matches!(ask(&mut server, NOW, attempt(n, b)), Answer::Busy { queued: true }));
    }
    assert_eq!(granted(ask(&mut server, NOW, attempt(1, a))), first, "asked again");
    let before = server.writes();
    assert!(matches!(ask(&mut server, NOW, attempt(3, b)), Answer::Busy { queued: true }), "keeps its place");
    assert_eq!(server.writes(), before);

    let handled = server.handle(NOW, A, release(1));
    assert!(matches!(handled.answer, Answer::Released { others: true }));
    assert_eq!(handled.pushes, [(B, Moved(owner(2)))], "only the next one is told");
    assert!(matches!(ask(&mut server, NOW, attempt(3, b)), Answer::Busy { queued: true }));
    let second = granted(ask(&mut server, NOW, attempt(2, b)));
    assert!(second > first);
    assert_eq!(server.handle(NOW, A, release(3)).pushes, [], "there was no place behind it");
    ask(&mut server, NOW, attempt(4, b));
    let own = server.handle(NOW, B, release(2)).answer;
    assert!(matches!(own, Answer::Released { others: false }), "the waiter is the same client's: {own:?}");
    ask(&mut server, NOW, release(4));
    assert!(matches!(ask(&mut server, NOW, release(2)), Answer::NotHeld));
    assert_eq!(server.kept(NOW), 0);
}

#[test]
fn a_waiter_that_gives_up_wakes_exactly_the_next_one() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    for (n, session) in [(1, a), (2, a), (3, b), (4, b)] {
        ask(&mut server, NOW, attempt(n, session));
    }
    assert_eq!(server.handle(NOW, A, release(2)).pushes, [(B, Moved(owner(3)))]);
    assert_eq!(server.handle(NOW, A, release(1)).pushes, [(B, Moved(owner(3)))]);
}

#[test]
fn a_look_takes_the_first_place_or_none() {
    let mut server = server();
    let a = open(&mut server, NOW, A);
    ask(&mut server, NOW, attempt(1, a));
    let before = server.writes();
    let look = ask(&mut server, NOW, numbered(2, a, 1, Queueing::No));
    assert!(matches!(look, Answer::Busy { queued: false }), "{look:?}");
    assert_eq!((server.writes(), server.kept(NOW)), (before, 1));
    ask(&mut server, NOW, release(1));
    granted(ask(&mut server, NOW, numbered(2, a, 2, Queueing::No)));
}

#[test]
fn a_session_that_ends_removes_its_places_and_wakes_the_next_waiter() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    ask(&mut server, NOW, attempt(1, a));
    ask(&mut server, NOW, attempt(2, b));
    ask(&mut server, NOW + SECOND, Request::Heartbeat { session: b });
    assert_eq!(server.next_expiry(), Some(NOW + TTL));
    let early = NOW + (TTL - Duration::from_micros(1));
    assert_eq!(server.expire(early), []);
    let pushes = server.expire(NOW + TTL);
    assert!(pushes.contains(&(B, Moved(owner(2)))) && pushes.contains(&(A, Moved(owner(1)))), "{pushes:?}");
    assert!(matches!(ask(&mut server, NOW + TTL, Request::Heartbeat { session: a }), Answer::NoSession));
    assert!(matches!(ask(&mut server, NOW + TTL, attempt(1, a)), Answer::NoSession));
    granted(ask(&mut server, NOW + TTL, attempt(2, b)));
    // `expire` was not called: the request itself finds the ended session.
    let late = NOW + TTL * 3;
    assert!(inspect(&mut server, late).holder.is_none());
}

#[test]
fn heartbeats_and_attempts_keep_a_session_and_closing_ends_it() {
    let mut server = server();
    let a = open(&mut server, NOW, A);
    ask(&mut server, NOW + TTL / 2, attempt(1, a));
    let token = granted(ask(&mut server, NOW + TTL, attempt(1, a)));
    let standing = has(&mut server, NOW + TTL * 3 / 2, a);
    assert_eq!(standing.get(&owner(1)).copied(), lock_core::FencingToken::new(token).map(Standing::Holds));
    ask(&mut server, NOW + TTL * 2, attempt(2, a));
    assert_eq!(has(&mut server, NOW + TTL * 2, a).get(&owner(2)), Some(&Standing::Waits));
    ask(&mut server, NOW + TTL * 2, Request::CloseSession { session: a });
    assert_eq!(server.kept(NOW + TTL * 2), 0);
    assert!(matches!(ask(&mut server, NOW + TTL * 2, Request::Heartbeat { session: a }), Answer::NoSession));
}

#[test]
fn a_late_attempt_is_defeated_by_its_release_and_a_newer_one_is_not() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, A));
    assert!(matches!(ask(&mut server, NOW, release_up_to(1, 2, Some(a))), Answer::NotHeld));
    for serial in [1, 2] {
        let late = ask(&mut server, NOW, numbered(1, a, serial, Queueing::Queued));
        assert!(matches!(late, Answer::Refused), "{late:?}");
    }
    granted(ask(&mut server, NOW, numbered(1, a, 3, Queueing::Queued)));
    let late = ask(&mut server, NOW, release_up_to(1, 2, None));
    assert!(matches!(late, Answer::NotHeld), "a late release leaves the newer attempt alone: {late:?}");
    ask(&mut server, NOW, release(1));
    granted(ask(&mut server, NOW, numbered(1, b, 1, Queueing::Queued)));
    // The tombstone lasts as long as the attempts could do harm.
    ask(&mut server, NOW, release(1));
    assert_eq!(server.kept(NOW), 1);
    ask(&mut server, NOW, Request::CloseSession { session: a });
    assert_eq!(server.kept(NOW), 0);
}

#[test]
fn a_revoked_lock_is_free_when_its_holders_session_could_have_ended() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    let first = granted(ask(&mut server, NOW, attempt(1, a)));
    ask(&mut server, NOW, attempt(2, b));
    let other = ask(&mut server, NOW, revoke(shown(2), 9, When::HoldersDeadline));
    assert!(matches!(other, Answer::Revoked(Revoked::NotHeld)), "a waiter is no holder: {other:?}");
    let revoked = server.handle(NOW + SECOND, B, revoke(shown(1), 9, When::HoldersDeadline));
    assert!(matches!(revoked.answer, Answer::Revoked(Revoked::FreeIn(left)) if left == TTL - SECOND));
    assert_eq!(revoked.pushes, [(A, Moved(owner(1)))], "only its holder is told");
    assert_eq!(inspect(&mut server, NOW + SECOND).holder.unwrap().owner, shown(9));

    // The session lives on. The place does not, and the attempt that had got it is refused.
    let standing = has(&mut server, NOW + SECOND, a);
    assert_eq!(standing.get(&owner(1)), Some(&Standing::Revoked));
    assert!(matches!(ask(&mut server, NOW + SECOND, attempt(1, a)), Answer::Refused));
    ask(&mut server, NOW + TTL / 2, Request::Heartbeat { session: b });
    assert!(matches!(ask(&mut server, NOW + TTL / 2, attempt(2, b)), Answer::Busy { .. }));
    assert_eq!(server.expire(NOW + TTL), [(B, Moved(owner(2)))]);
    assert!(granted(ask(&mut server, NOW + TTL, attempt(2, b))) > first);
}

#[test]
fn what_was_revoked_is_its_first_holders_to_give_back() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    ask(&mut server, NOW, attempt(1, a));
    ask(&mut server, NOW, attempt(2, b));
    ask(&mut server, NOW, revoke(shown(1), 8, When::HoldersDeadline));
    ask(&mut server, NOW, revoke(shown(8), 9, When::HoldersDeadline));
    assert!(matches!(ask(&mut server, NOW, release_up_to(1, 0, None)), Answer::NotHeld), "a late one");
    assert!(matches!(ask(&mut server, NOW, release(8)), Answer::NotHeld), "this owner never held it");
    let released = server.handle(NOW, A, release(1));
    assert!(matches!(released.answer, Answer::Released { others: true }), "{released:?}");
    assert_eq!(released.pushes, [(B, Moved(owner(2)))]);
    granted(ask(&mut server, NOW, attempt(2, b)));
    assert!(matches!(ask(&mut server, NOW, release(1)), Answer::NotHeld), "once");

    // An owner that asks anew can release only what it gets then.
    ask(&mut server, NOW, revoke(shown(2), 10, When::HoldersDeadline));
    assert!(matches!(ask(&mut server, NOW, numbered(2, b, 2, Queueing::No)), Answer::Busy { queued: false }));
    assert!(matches!(ask(&mut server, NOW, release(2)), Answer::NotHeld));
    assert_eq!(inspect(&mut server, NOW).holder.unwrap().owner, shown(10), "until its end");
    assert!(inspect(&mut server, NOW + TTL).holder.is_none());
}

#[test]
fn a_lock_that_is_revoked_now_is_the_next_ones_at_once() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    ask(&mut server, NOW, attempt(1, a));
    ask(&mut server, NOW, attempt(2, b));
    // Also after the lock was revoked at its holder's deadline.
    ask(&mut server, NOW, revoke(shown(1), 9, When::HoldersDeadline));
    let revoked = server.handle(NOW, A, revoke(shown(9), 10, When::Now));
    assert!(matches!(revoked.answer, Answer::Revoked(Revoked::Free)));
    assert_eq!(revoked.pushes, [(B, Moved(owner(2)))]);
    granted(ask(&mut server, NOW, attempt(2, b)));
    ask(&mut server, NOW, revoke(shown(2), 11, When::Now));
    assert!(inspect(&mut server, NOW).holder.is_none());
    assert_eq!(has(&mut server, NOW, b).get(&owner(2)), Some(&Standing::Revoked));
}

#[test]
fn an_expired_holder_loses_its_session() {
    let mut server = server();
    let (a, b) = (open(&mut server, NOW, A), open(&mut server, NOW, B));
    ask(&mut server, NOW, attempt(1, a));
    ask(&mut server, NOW, attempt(2, b));
    let handled = server.handle(NOW, B, Request::Expire { key: "n".into() });
    assert!(handled.pushes.contains(&(B, Moved(owner(2)))) && handled.pushes.contains(&(A, Moved(owner(1)))));
    assert!(matches!(ask(&mut server, NOW, Request::Heartbeat { session: a }), Answer::NoSession));
    assert!(matches!(ask(&mut server, NOW, Request::Expire { key: "m".into() }), Answer::NotHeld));
}

// ---- against a model ------------------------------------------------------------------------------------------------

/// For each place: its owner, and the place in front of it.
type Order = BTreeMap<u64, (u64, Option<u64>)>;

/// A queue server of one lock in its simplest form: everything is a list that is searched.
#[derive(Default)]
struct Model {
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

    fn check(&mut self, now: ServerTime, n: u64, request: &Request, answer: &Answer) {
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

    /// Returns for each place its owner, and the place in front of it.
    fn order(&self) -> Order {
        let front = |at: usize| at.checked_sub(1).map(|at| self.queue[at].place);
        self.queue.iter().enumerate().map(|(at, p)| (p.place, (p.n, front(at)))).collect()
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

const OPERATOR: u64 = 1000;

#[test]
fn a_thousand_random_histories_fit_the_model() {
    let mut counted = HashMap::<&str, u64>::new();
    for seed in 0..1000 {
        let (mut random, mut server, mut model) = (SplitMix(seed), server(), Model::default());
        let (mut now, mut in_flight, mut sessions) = (NOW, Vec::new(), Vec::new());
        for step in 0..200_u64 {
            now = now + TTL.mul_f64(random.below(300) as f64 / 10_000.0);
            let n = step / 20 + random.below(5);
            let request = draw(&mut random, n, step, &sessions);
            in_flight.push((n, request));
            // Some messages arrive late, some twice.
            let next = random.below(in_flight.len() as u64) as usize;
            let (n, request) = match random.below(4) {
                0 => in_flight[next].clone(),
                _ => in_flight.swap_remove(next),
            };
            in_flight.truncate(6);

            let before = model.order();
            let Handled { answer, pushes } = server.handle(now, A, request.clone());
            model.check(now, n, &request, &answer);
            check_pushes(&before, &model.order(), &pushes);
            if let Answer::Opened(session) = answer {
                sessions.push(session);
            }
            *counted.entry(kind(&answer)).or_default() += 1;
        }
    }
    let kinds =
        ["kept", "no session", "granted", "queued", "busy", "refused", "released", "not held", "revoked"];
    for kind in kinds {
        assert!(
            counted.get(kind).is_some_and(|count| *count > 1000),
            "{kind} was hardly tested: {counted:?}"
        );
    }
}

fn draw(random: &mut SplitMix, n: u64, step: u64, sessions: &[SessionId]) -> Request {
    let recent = &sessions[sessions.len().saturating_sub(3)..];
    let Some(session) = recent.get(random.below(recent.len().max(1) as u64) as usize).copied() else {
        return Request::OpenSession { timeout: TTL };
    };
    match random.below(20) {
        0 => Request::OpenSession { timeout: TTL },
        1 => Request::CloseSession { session },
        2..=4 => Request::Heartbeat { session },
        5..=6 => numbered(n, session, step, Queueing::No),
        7..=12 => numbered(n, session, step, Queueing::Queued),
        13..=14 => release_up_to(n, step, None),
        15..=16 => release_up_to(n, step + random.below(10), Some(session)),
        17 => revoke(shown(n), OPERATOR, When::HoldersDeadline),
        18 => revoke(shown(n), OPERATOR, When::Now),
        _ => revoke(shown(OPERATOR), OPERATOR, When::Now),
    }
}

/// Asserts that every owner is told in front of whose place another one is gone. Besides them, only owners that have
/// lost their own place may be told.
fn check_pushes(before: &Order, after: &Order, pushes: &[(ClientId, Moved)]) {
    let told: BTreeSet<Owner> = pushes.iter().map(|(_, Moved(owner))| *owner).collect();
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for (place, (n, front)) in before {
        match after.get(place) {
            Some((still, now)) if still == n && now == front => {}
            Some((still, _)) if still == n => _ = must.insert(owner(*n)),
            _ => _ = may.insert(owner(*n)),
        }
    }
    // A place of the operator's belongs to no session, so there is no client to tell.
    must.remove(&owner(OPERATOR));
    assert!(must.is_subset(&told), "not told: {before:?}, {after:?}, {told:?}");
    assert!(
        told.iter().all(|n| must.contains(n) || may.contains(n)),
        "told without reason: {before:?}, {after:?}, {told:?}"
    );
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Kept(_) => "kept",
        Answer::NoSession => "no session",
        Answer::Granted(_) => "granted",
        Answer::Busy { queued: true } => "queued",
        Answer::Busy { queued: false } => "busy",
        Answer::Refused => "refused",
        Answer::Released { .. } => "released",
        Answer::NotHeld => "not held",
        Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)) => "revoked",
        _ => "something else",
    }
}
