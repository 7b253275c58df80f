//! The rules of the queue server, one by one, and all of them against a simpler model.

#[path = "../common/mod.rs"]
mod common;
mod histories;
mod model;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{A, B, NOW, SECOND, TTL, owner, shown};
use lock_core::driver::{Inspection, Queueing, Revoked, When};
use lock_core::{Label, Owner, OwnerBytes};
use lock_memory::ServerTime;
use lock_memory::server::queue::{Answer, Moved, QueueServer, Request, SessionId, Standing};
use lock_memory::server::{ClientId, Server};

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
fn a_leaving_waiter_wakes_exactly_the_next() {
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
fn an_ending_session_removes_places_and_wakes_waiters() {
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
fn heartbeats_and_attempts_keep_a_session_until_closed() {
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
fn a_release_defeats_late_attempts_not_newer_ones() {
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
fn a_revoked_lock_is_free_after_session_timeout() {
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
fn only_the_first_holder_releases_a_revoked_lock() {
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
fn a_lock_revoked_now_passes_on_at_once() {
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
