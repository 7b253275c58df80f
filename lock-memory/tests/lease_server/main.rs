//! The rules of the lease server, one by one, and all of them against a simpler model.

#[path = "../common/mod.rs"]
mod common;
mod histories;
mod model;

use std::time::Duration;

use common::{A, B, NOW, SECOND, TTL, owner, shown};
use lock_core::driver::{Revoked, When};
use lock_core::{Label, LossReason};
use lock_memory::ServerTime;
use lock_memory::server::lease::{Answer, LeaseServer, Notification, Request, TOKEN_MEMORY};
use lock_memory::server::{Handled, Key, Server};

fn attempt(n: u64, ttl: Duration, deadline: ServerTime) -> Request {
    Request::Attempt { key: "n".into(), owner: owner(n), label: Label::new("a test"), ttl, deadline }
}

/// The takeover of owner `n` to the owner after it.
fn take_over(n: u64, ttl: Duration, deadline: ServerTime) -> Request {
    let (key, label) = ("n".into(), Label::new("a test"));
    Request::Succeed { key, predecessor: owner(predecessor(n)), owner: owner(n), label, ttl, deadline }
}

/// Returns the owner whose place owner `n` takes in these tests.
fn predecessor(n: u64) -> u64 {
    n + 1
}

fn renew(n: u64, ttl: Duration) -> Request {
    Request::Renew { key: "n".into(), owner: owner(n), ttl }
}

fn release(n: u64) -> Request {
    Request::Release { key: "n".into(), owner: owner(n) }
}

fn revoke(n: u64, by: u64, when: When) -> Request {
    Request::Revoke {
        key: "n".into(),
        holder: shown(n),
        by: owner(by),
        label: Label::new("an operator"),
        when,
    }
}

/// Returns the answer to `request` of client A.
fn ask(server: &mut LeaseServer, now: ServerTime, request: Request) -> Answer {
    server.handle(now, A, request).answer
}

/// Returns the token and the time left of an answer, which has to be a grant.
fn granted(answer: Answer) -> (u64, Duration) {
    match answer {
        Answer::Granted { token, left } => (token.get(), left),
        other => panic!("not granted: {other:?}"),
    }
}

fn grant(server: &mut LeaseServer, now: ServerTime, n: u64) -> u64 {
    granted(ask(server, now, attempt(n, TTL, now + SECOND))).0
}

#[test]
fn a_lock_is_handed_over_by_its_holder_alone() {
    let mut server = LeaseServer::default();
    let deadline = NOW + SECOND;
    assert!(matches!(ask(&mut server, NOW, take_over(1, TTL, deadline)), Answer::NotHeld));
    let first = grant(&mut server, NOW, predecessor(1));
    server.handle(NOW, B, Request::Listen { key: "n".into(), serial: 1 });
    match server.handle(NOW, A, take_over(1, TTL * 2, deadline)) {
        Handled { answer: Answer::Succeeded { token, left, others }, pushes } => {
            assert!(token.get() > first && left == TTL * 2 && others && pushes.is_empty());
        }
        Handled { answer, .. } => panic!("{answer:?}"),
    }
    assert!(matches!(ask(&mut server, NOW, take_over(1, TTL, deadline)), Answer::NotHeld));
    assert!(matches!(ask(&mut server, NOW, release(predecessor(1))), Answer::NotHeld));
    assert_eq!(server.handle(NOW, A, release(1)).pushes.len(), 1, "B is told of the release");
}

#[test]
fn a_takeover_after_its_deadline_is_refused() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, predecessor(1));
    let late = NOW + SECOND * 2;
    assert!(matches!(ask(&mut server, late, take_over(1, TTL, NOW + SECOND)), Answer::Refused));
    assert!(matches!(ask(&mut server, late, renew(predecessor(1), TTL)), Answer::Renewed { .. }));
}

#[test]
fn the_server_grants_only_free_locks() {
    let mut server = LeaseServer::default();
    let first = grant(&mut server, NOW, 1);
    assert_eq!(first, NOW.as_micros(), "the clock is a good first token");
    let busy = ask(&mut server, NOW + SECOND, attempt(2, TTL, NOW + TTL));
    assert!(matches!(busy, Answer::Busy { left } if left == TTL - SECOND), "{busy:?}");
    let last = NOW + (TTL - Duration::from_micros(1));
    assert!(matches!(ask(&mut server, last, attempt(2, TTL, NOW + TTL)), Answer::Busy { .. }));
    assert!(grant(&mut server, NOW + TTL, 2) > first, "free when the lease has ended, to the microsecond");
}

#[test]
fn a_look_that_finds_it_held_writes_nothing() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    assert_eq!(server.writes(), 1);
    ask(&mut server, NOW, attempt(2, TTL, NOW + SECOND));
    ask(&mut server, NOW, Request::Inspect { key: "n".into() });
    ask(&mut server, NOW, renew(2, TTL));
    ask(&mut server, NOW, release(2));
    assert_eq!(server.writes(), 1);
}

#[test]
fn an_attempt_that_comes_after_its_deadline_is_refused() {
    let mut server = LeaseServer::default();
    let late = NOW + SECOND + Duration::from_micros(1);
    assert!(matches!(ask(&mut server, late, attempt(1, TTL, NOW + SECOND)), Answer::Refused));
    granted(ask(&mut server, NOW + SECOND, attempt(1, TTL, NOW + SECOND)));
    let again = ask(&mut server, late, attempt(1, TTL, NOW + SECOND));
    assert!(matches!(again, Answer::Refused), "an attempt of the holder is refused, too");
}

#[test]
fn a_repeated_attempt_gets_the_same_grant_undiminished() {
    let mut server = LeaseServer::default();
    let (token, left) = granted(ask(&mut server, NOW, attempt(1, TTL, NOW + TTL)));
    assert_eq!(left, TTL);
    let shorter = granted(ask(&mut server, NOW + SECOND, attempt(1, SECOND, NOW + TTL)));
    assert_eq!(shorter, (token, TTL - SECOND), "what is left, and not what is asked for");
    let longer = granted(ask(&mut server, NOW + SECOND, attempt(1, TTL, NOW + TTL)));
    assert_eq!(longer, (token, TTL));
}

#[test]
fn a_renewal_never_shortens_and_never_creates() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    let shorter = ask(&mut server, NOW, renew(1, SECOND));
    assert!(matches!(shorter, Answer::Renewed { left } if left == TTL), "{shorter:?}");
    let longer = ask(&mut server, NOW + SECOND, renew(1, TTL));
    assert!(matches!(longer, Answer::Renewed { left } if left == TTL), "{longer:?}");
    let gone = ask(&mut server, NOW + SECOND + TTL, renew(1, TTL));
    assert!(matches!(gone, Answer::Lost(LossReason::Gone)), "{gone:?}");
    assert!(matches!(
        ask(&mut server, NOW, Request::Renew { key: "m".into(), owner: owner(1), ttl: TTL }),
        Answer::Lost(LossReason::Gone)
    ));
    grant(&mut server, NOW + SECOND + TTL, 2);
    let taken = ask(&mut server, NOW + SECOND + TTL, renew(1, TTL));
    assert!(matches!(taken, Answer::Lost(LossReason::Taken)), "{taken:?}");
}

#[test]
fn only_the_holder_releases_and_listeners_are_told() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    for (client, serial) in [(A, 1), (B, 7)] {
        server.handle(NOW, client, Request::Listen { key: "n".into(), serial });
    }
    let foreign = server.handle(NOW, A, release(2));
    assert!(matches!(foreign.answer, Answer::NotHeld) && foreign.pushes.is_empty());
    let own = server.handle(NOW, A, release(1));
    assert!(matches!(own.answer, Answer::Released { others: true }));
    assert_eq!(own.pushes, [A, B].map(|client| (client, Notification::Released("n".into()))));
    assert!(matches!(ask(&mut server, NOW, release(1)), Answer::NotHeld), "twice");

    // A late `Unlisten` doesn't undo a newer `Listen`; one in time does.
    server.handle(NOW, B, Request::Unlisten { key: "n".into(), serial: 6 });
    grant(&mut server, NOW, 3);
    assert!(matches!(ask(&mut server, NOW, release(3)), Answer::Released { others: true }));
    server.handle(NOW, B, Request::Unlisten { key: "n".into(), serial: 7 });
    grant(&mut server, NOW, 4);
    let alone = server.handle(NOW, A, release(4));
    assert!(matches!(alone.answer, Answer::Released { others: false }), "only the client itself listens");
    server.hang_up(A);
    grant(&mut server, NOW, 5);
    assert!(server.handle(NOW, A, release(5)).pushes.is_empty());
}

#[test]
fn a_release_after_the_lease_changes_nothing() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    assert!(matches!(ask(&mut server, NOW + TTL, release(1)), Answer::NotHeld));
}

#[test]
fn a_revoked_lock_is_free_at_its_holders_deadline() {
    let mut server = LeaseServer::default();
    let first = grant(&mut server, NOW, 1);
    assert!(matches!(
        ask(&mut server, NOW, revoke(2, 9, When::HoldersDeadline)),
        Answer::Revoked(Revoked::NotHeld)
    ));
    let revoked = ask(&mut server, NOW + SECOND, revoke(1, 9, When::HoldersDeadline));
    assert!(matches!(revoked, Answer::Revoked(Revoked::FreeIn(left)) if left == TTL - SECOND), "{revoked:?}");
    assert!(matches!(ask(&mut server, NOW + SECOND, renew(1, TTL)), Answer::Lost(LossReason::Revoked)));
    assert!(matches!(ask(&mut server, NOW + SECOND, attempt(2, TTL, NOW + TTL)), Answer::Busy { .. }));
    assert!(grant(&mut server, NOW + TTL, 2) > first);
    assert!(
        matches!(ask(&mut server, NOW + TTL, renew(1, TTL)), Answer::Lost(LossReason::Revoked)),
        "the cause stays the revoke"
    );
}

#[test]
fn only_the_first_holder_releases_a_revoked_lock() {
    let mut server = LeaseServer::default();
    let first = grant(&mut server, NOW, 1);
    server.handle(NOW, B, Request::Listen { key: "n".into(), serial: 1 });
    ask(&mut server, NOW, revoke(1, 8, When::HoldersDeadline));
    ask(&mut server, NOW, revoke(8, 9, When::HoldersDeadline));
    assert!(matches!(ask(&mut server, NOW, renew(1, TTL)), Answer::Lost(LossReason::Revoked)));
    assert!(matches!(ask(&mut server, NOW, release(8)), Answer::NotHeld), "this owner never held it");
    let released = server.handle(NOW, A, release(1));
    assert!(matches!(released.answer, Answer::Released { others: true }), "{released:?}");
    assert_eq!(released.pushes, [(B, Notification::Released("n".into()))]);
    assert!(grant(&mut server, NOW, 2) > first);
    assert!(matches!(ask(&mut server, NOW, release(1)), Answer::NotHeld), "once");
}

#[test]
fn a_revoke_is_told_to_watchers() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    assert_eq!(server.handle(NOW, B, revoke(1, 9, When::HoldersDeadline)).pushes, []);
    server.handle(NOW, A, Request::Watch);
    let told = [(A, Notification::Revoked(owner(1)))];
    assert_eq!(server.handle(NOW, B, revoke(9, 10, When::HoldersDeadline)).pushes, told, "its first holder");
    assert_eq!(server.handle(NOW, B, revoke(10, 11, When::Now)).pushes, told);
    server.hang_up(A);
    grant(&mut server, NOW, 2);
    assert_eq!(server.handle(NOW, B, revoke(2, 9, When::Now)).pushes, []);
}

#[test]
fn a_lock_revoked_now_refuses_its_old_attempt() {
    let mut server = LeaseServer::default();
    grant(&mut server, NOW, 1);
    server.handle(NOW, B, Request::Listen { key: "n".into(), serial: 1 });
    let revoked = server.handle(NOW, A, revoke(1, 9, When::Now));
    assert!(matches!(revoked.answer, Answer::Revoked(Revoked::Free)));
    assert_eq!(revoked.pushes.len(), 1);
    assert!(matches!(ask(&mut server, NOW, renew(1, TTL)), Answer::Lost(LossReason::Revoked)));
    let doubled = ask(&mut server, NOW, attempt(1, TTL, NOW + SECOND));
    assert!(matches!(doubled, Answer::Refused), "{doubled:?}");
    // An owner that never learned of its grant and of its loss asks anew.
    granted(ask(&mut server, NOW, attempt(1, TTL, NOW + SECOND * 2)));
}

#[test]
fn tokens_rise_whatever_the_clock_does() {
    let mut server = LeaseServer::default();
    let mut last = 0;
    // The clock stands still, goes forward, and goes back by less than the time for which a token is remembered.
    for now in [NOW, NOW, NOW + TTL * 10, NOW + TTL * 10 + TOKEN_MEMORY, NOW + TTL * 10 + SECOND] {
        for n in 1..4 {
            let token = grant(&mut server, now, n);
            assert!(token > last, "{token} after {last}");
            last = token;
            ask(&mut server, now, release(n));
        }
    }
}

#[test]
fn names_are_forgotten_one_hour_after_their_token() {
    let mut server = LeaseServer::default();
    let many = 10_000;
    let grant_and_release = |server: &mut LeaseServer, now: ServerTime, name: &str| {
        let (key, label): (Key, _) = (name.into(), Label::new("a test"));
        let request = Request::Attempt { key: key.clone(), owner: owner(1), label, ttl: TTL, deadline: now };
        let token = granted(server.handle(now, A, request).answer).0;
        server.handle(now, A, Request::Release { key, owner: owner(1) });
        token
    };
    for n in 0..many {
        grant_and_release(&mut server, NOW, &format!("n{n}"));
    }
    assert_eq!(server.names(), many, "for a clock that falls by less than an hour, all tokens are kept");
    let early = NOW + (TOKEN_MEMORY - Duration::from_micros(1));
    for _ in 0..many {
        grant_and_release(&mut server, early, "busy");
    }
    assert_eq!(server.names(), many + 1, "a microsecond too early");
    for _ in 0..many {
        grant_and_release(&mut server, NOW + TOKEN_MEMORY, "busy");
    }
    assert_eq!(server.names(), 1, "each grant looks at a few names in turn, and forgets them");
    assert!(grant_and_release(&mut server, NOW + TOKEN_MEMORY, "n1") > NOW.as_micros());
}
