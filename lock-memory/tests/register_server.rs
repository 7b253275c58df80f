//! The rules of the register server, one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other servers' tests use the rest")]
#[path = "common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{A, B, NOW, SECOND};
use lock_memory::ServerTime;
use lock_memory::server::register::{Answer, KEPT, Notification, RegisterServer, Request};
use lock_memory::server::{ClientId, Key, Server};

fn put(key: &str, expected: Option<u64>, value: &[u8]) -> Request {
    Request::Put { key: key.into(), expected, value: value.into() }
}

fn watch(serial: u64) -> Request {
    Request::Watch { key: "n".into(), serial }
}

fn unwatch(serial: u64) -> Request {
    Request::Unwatch { key: "n".into(), serial }
}

fn ask(server: &mut RegisterServer, now: ServerTime, request: Request) -> Answer {
    server.handle(now, A, request).answer
}

/// Writes to the key `n`, and returns the revision.
fn written(server: &mut RegisterServer, now: ServerTime, expected: Option<u64>, value: &[u8]) -> u64 {
    match ask(server, now, put("n", expected, value)) {
        Answer::Applied { revision } => revision,
        other => panic!("{other:?}"),
    }
}

/// Returns what the key `n` has, and when it was stamped.
fn last(server: &mut RegisterServer, now: ServerTime) -> Option<(Vec<u8>, u64, ServerTime)> {
    match ask(server, now, Request::Get { key: "n".into() }) {
        Answer::Last(last) => last.map(|last| (last.value.to_vec(), last.revision, last.stamp)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_is_replaced_if_it_has_not_changed() {
    let mut server = RegisterServer::new(NOW);
    assert_eq!(last(&mut server, NOW), None);
    assert!(matches!(ask(&mut server, NOW, put("n", Some(1), b"a")), Answer::Refused));
    let first = written(&mut server, NOW, None, b"a");
    assert!(matches!(ask(&mut server, NOW, put("n", None, b"b")), Answer::Refused));
    let second = written(&mut server, NOW + SECOND, Some(first), b"a");
    assert!(second > first);
    assert!(matches!(ask(&mut server, NOW, put("n", Some(first), b"b")), Answer::Refused));
    assert_eq!(last(&mut server, NOW).unwrap(), (b"a".to_vec(), second, NOW + SECOND));
    assert_eq!((server.writes(), server.tokens()), (2, 1));
}

#[test]
fn a_reset_server_refuses_requests_of_its_predecessor() {
    let mut server = RegisterServer::new(NOW);
    let before = written(&mut server, NOW, None, b"a");
    let mut server = RegisterServer::new(NOW + SECOND);
    written(&mut server, NOW + SECOND, None, b"b");
    assert!(matches!(ask(&mut server, NOW + SECOND, put("n", Some(before), b"a")), Answer::Refused));
}

fn told(server: &mut RegisterServer, request: Request) -> Vec<(ClientId, Notification)> {
    server.handle(NOW, A, request).pushes
}

#[test]
fn watchers_are_notified_of_writes_until_they_unsubscribe() {
    let mut server = RegisterServer::new(NOW);
    server.handle(NOW, B, watch(2));
    let revision = written(&mut server, NOW, None, b"a");
    let value: Arc<[u8]> = b"b".as_slice().into();
    let pushes = told(&mut server, put("n", Some(revision), b"b"));
    assert_eq!(pushes, [(B, Notification::Written(Key::from("n"), value))]);
    assert_eq!(told(&mut server, put("other", None, b"a")), []);
    server.handle(NOW, B, unwatch(1));
    assert_eq!(server.kept(NOW), 1, "a late word of an earlier watch");
    server.handle(NOW, B, unwatch(2));
    assert_eq!(server.kept(NOW), 0);
    assert_eq!(told(&mut server, put("n", Some(revision + 1), b"c")), []);
}

#[test]
fn what_is_published_comes_to_subscribers() {
    let mut server = RegisterServer::new(NOW);
    let publish = || Request::Publish { text: "an owner".into() };
    assert_eq!(told(&mut server, publish()), []);
    server.handle(NOW, B, Request::Subscribe);
    server.handle(NOW, B, watch(1));
    assert_eq!(told(&mut server, publish()), [(B, Notification::Published("an owner".into()))]);
    server.hang_up(B);
    assert_eq!((told(&mut server, publish()), server.kept(NOW)), (vec![], 0));
}

#[test]
fn old_values_are_removed_while_others_are_written() {
    let mut server = RegisterServer::new(NOW);
    for n in 0..100 {
        ask(&mut server, NOW, put(&format!("old {n}"), None, b"a"));
    }
    let almost = NOW + (KEPT - Duration::from_micros(1));
    let mut revision = written(&mut server, almost, None, b"a");
    for _ in 0..100 {
        revision = written(&mut server, almost, Some(revision), b"a");
    }
    assert_eq!(server.tokens(), 101);
    for _ in 0..51 {
        revision = written(&mut server, NOW + KEPT, Some(revision), b"a");
    }
    assert_eq!(server.tokens(), 1);
}

#[test]
fn an_administrator_ends_a_lease_and_the_token_stays() {
    let mut server = RegisterServer::new(NOW);
    let stamp = NOW.as_micros();
    let expire = || Request::Expire { key: "n".into() };
    assert!(matches!(ask(&mut server, NOW, expire()), Answer::NotHeld));
    let row = format!("lock1 granted {:032x} 30000000 0 {} 0 - - a test", 7, stamp + 1);
    written(&mut server, NOW, None, row.as_bytes());
    assert_eq!(server.holder(NOW, "n").unwrap().token.unwrap().get(), stamp);
    assert_eq!(server.kept(NOW), 1);
    assert!(matches!(ask(&mut server, NOW + SECOND, expire()), Answer::Done));
    assert!(server.holder(NOW + SECOND, "n").is_none());
    let text = String::from_utf8(last(&mut server, NOW).unwrap().0).unwrap();
    assert!(text.starts_with("lock1 released ") && text.contains(&stamp.to_string()), "{text}");
    assert!(matches!(ask(&mut server, NOW + SECOND, expire()), Answer::NotHeld));
}
