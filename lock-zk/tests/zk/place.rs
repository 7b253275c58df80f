//! An owner's node: it is created once, found if its creation was not answered, and removed even if connections break.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Cut, Direction, Fault, Proxy};
use lock_core::driver::{Queueing, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind};
use lock_zk::zookeeper_client::{Acls, CreateMode};

use crate::server::{
    LONG, Server, TTL, busy, children, claim, claim_with, granted, holders_session, open, run, until,
};

/// Opens a client behind a proxy, with an open session for this ttl. Creates the lock's directory, as one that the
/// server does not remove while it is empty.
async fn through(server: &Server, ttl: Duration) -> (Proxy, Client) {
    let directory = CreateMode::Persistent.with_acls(Acls::anyone_all());
    // A test's second client finds the directory.
    server.raw().await.create("/a", &[], &directory).await.ok();
    let proxy = Proxy::start(&server.0.address()).await.unwrap();
    let client = open(&server.through(proxy.address())).await;
    let mut first = claim(&client, "a", ttl, Queueing::Queued);
    granted(&mut first).await;
    first.release().await.unwrap();
    (proxy, client)
}

// Proves: answer-lost
pub(crate) fn an_owner_finds_its_unanswered_node() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server, LONG).await;
        let raw = server.raw().await;
        proxy.hold_open_ones(Direction::ToClient);
        let mut holder = claim(&client, "a", LONG, Queueing::Queued);
        let attempt = tokio::spawn(async move {
            let grant = granted(&mut holder).await;
            (holder, grant)
        });
        until("the node is made", LONG, || async { !children(&raw, "/a").await.is_empty() }).await;
        // The answer is lost with the connection.
        until("it is answered", LONG, || async { proxy.count(Fault::Held(Direction::ToClient)) > 0 }).await;
        proxy.cut(Cut::Reset);
        let (mut holder, grant) = attempt.await.unwrap();
        let nodes = children(&raw, "/a").await;
        let [node] = &nodes[..] else { panic!("there is one: {nodes:?}") };
        let (_, stat) = raw.get_data(&format!("/a/{node}")).await.unwrap();
        assert_eq!(stat.czxid.cast_unsigned(), grant.token.get());
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        assert!(children(&raw, "/a").await.is_empty());
    })
}

// Proves: request-late
/// The attempt hangs on its way. Its release uses another connection, and ends the one on which the attempt hangs.
pub(crate) fn a_late_attempt_makes_no_node() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let raw = server.raw().await;
        for waits in [Queueing::Queued, Queueing::No] {
            let (proxy, client) = through(&server, LONG).await;
            let patience = Duration::from_millis(600);
            let mut late = claim_with(&client, "a", LONG, waits, patience);
            let held = proxy.count(Fault::Held(Direction::ToServer));
            match waits {
                Queueing::Queued => proxy.hold_open_ones(Direction::ToServer),
                // The look is answered, and the creation hangs.
                Queueing::No => proxy.hold_open_ones_after(Direction::ToServer, 1),
            }
            let asked = Instant::now();
            let error = late.attempt().await.expect_err("no answer came");
            assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
            assert_in_time!(asked.elapsed() < patience + Duration::from_millis(100), "{:?}", asked.elapsed());
            until("it is on its way", TTL, || async { proxy.count(Fault::Held(Direction::ToServer)) > held })
                .await;
            assert_eq!(late.release().await.unwrap(), Release::NotHeld);
            proxy.deliver_late(Direction::ToServer).await;
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end {
                assert!(children(&raw, "/a").await.is_empty(), "the attempt made a node after its release");
            }
        }
    })
}

// Proves: answer-lost
pub(crate) fn a_release_is_sent_on_the_resumed_session() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server, LONG).await;
        let raw = server.raw().await;
        let mut holder = claim(&client, "a", LONG, Queueing::Queued);
        granted(&mut holder).await;
        let session = holders_session(&raw, "/a").await;
        for how in [Cut::Reset, Cut::Closed] {
            proxy.cut(how);
            assert!(matches!(holder.renew(LONG).await.unwrap(), Renewal::Held { .. }), "a cut is no loss");
            assert_eq!(holders_session(&raw, "/a").await, session);
        }
        proxy.cut(Cut::Reset);
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        assert!(children(&raw, "/a").await.is_empty());
        // The next claim uses the same session.
        let mut next = claim(&client, "a", LONG, Queueing::Queued);
        granted(&mut next).await;
        assert_eq!(holders_session(&raw, "/a").await, session);
    })
}

pub(crate) fn a_claim_that_does_not_wait_leaves_nothing() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (a, b, raw) = (server.client().await, server.client().await, server.raw().await);
        let mut holder = claim(&a, "a", TTL, Queueing::No);
        granted(&mut holder).await;
        let mut looking = claim(&b, "a", TTL, Queueing::No);
        for _ in 0..3 {
            assert!(!busy(&mut looking).await.queued);
            assert_eq!(children(&raw, "/a").await.len(), 1);
        }
        assert_eq!(looking.release().await.unwrap(), Release::NotHeld);
        // Two claims find the lock free: at most one takes it, and the other leaves nothing.
        holder.release().await.unwrap();
        for _ in 0..20 {
            let (mut one, mut other) = (claim(&a, "a", TTL, Queueing::No), claim(&b, "a", TTL, Queueing::No));
            let (first, second) = tokio::join!(one.attempt(), other.attempt());
            let both = [first.unwrap(), second.unwrap()];
            let held =
                both.iter().filter(|attempt| matches!(attempt, lock_core::driver::Attempt::Granted(_)));
            let held = held.count();
            assert!(held <= 1, "{both:?}");
            assert_eq!(children(&raw, "/a").await.len(), held);
            one.release().await.unwrap();
            other.release().await.unwrap();
        }
    })
}

// Proves: key-deleted
pub(crate) fn a_waiter_whose_node_was_removed_queues_again() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (a, b, raw) = (server.client().await, server.client().await, server.raw().await);
        let mut holder = claim(&a, "a", TTL, Queueing::Queued);
        granted(&mut holder).await;
        let mut waiter = claim(&b, "a", TTL, Queueing::Queued);
        assert!(busy(&mut waiter).await.queued);
        let nodes = children(&raw, "/a").await;
        raw.delete(&format!("/a/{}", nodes[1]), None).await.unwrap();
        assert!(busy(&mut waiter).await.queued);
        let again = children(&raw, "/a").await;
        assert_eq!((again.len(), &again[0]), (2, &nodes[0]));
        assert_ne!(again[1], nodes[1]);
        holder.release().await.unwrap();
        granted(&mut waiter).await;
    })
}

/// As when a panic drops the claim: no release follows, and the session lives on for another lock.
pub(crate) fn a_cut_short_claim_leaves_its_node_to_sessions() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        let (mut cut, mut waits) =
            (claim(&client, "a", LONG, Queueing::Queued), claim(&client, "a", LONG, Queueing::Queued));
        let mut kept = claim(&client, "b", LONG, Queueing::Queued);
        granted(&mut cut).await;
        granted(&mut kept).await;
        assert!(busy(&mut waits).await.queued);
        drop((cut, waits));
        until("their nodes are gone", LONG / 4, || async { children(&raw, "/a").await.is_empty() }).await;
        assert!(matches!(kept.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    })
}

/// The claim had not been notified of its node yet.
pub(crate) fn a_cut_short_attempt_leaves_its_node_to_sessions() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server, LONG).await;
        let raw = server.raw().await;
        let mut kept = claim(&client, "b", LONG, Queueing::Queued);
        granted(&mut kept).await;
        proxy.hold_open_ones(Direction::ToClient);
        let mut cut = claim(&client, "a", LONG, Queueing::Queued);
        let attempt = tokio::spawn(async move { cut.attempt().await.map(drop) });
        until("the node is made", LONG, || async { !children(&raw, "/a").await.is_empty() }).await;
        attempt.abort();
        until("its node is gone", LONG / 4, || async { children(&raw, "/a").await.is_empty() }).await;
        assert!(matches!(kept.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    })
}

/// As when the driver panics in an attempt: the core still releases the claim.
pub(crate) fn a_release_undoes_an_attempt_dropped_in_flight() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server, LONG).await;
        let raw = server.raw().await;
        let mut kept = claim(&client, "b", LONG, Queueing::Queued);
        granted(&mut kept).await;
        proxy.hold_open_ones(Direction::ToClient);
        let mut dropped = claim(&client, "a", LONG, Queueing::Queued);
        tokio::select! {
            attempt = dropped.attempt() => panic!("it has no answer: {attempt:?}"),
            () = until("the node is made", LONG, || async { !children(&raw, "/a").await.is_empty() }) => {}
        }
        let release = dropped.release().await.expect("one release is enough: it ends the connection");
        assert!(matches!(release, Release::Released { .. }), "{release:?}");
        assert!(children(&raw, "/a").await.is_empty());
        assert!(matches!(kept.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    })
}
