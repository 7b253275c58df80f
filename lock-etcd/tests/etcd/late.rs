//! Attempts that reach the server after their release.

use std::time::Duration;

use lock_conformance::proxy::{Direction, Fault, Proxy};
use lock_conformance::timing::void;
use lock_core::driver::{Claim, Queueing, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind};
use lock_etcd::etcd_client::{self, PutOptions};

use crate::server::{
    LARGE, LONG, SOON, Server, all, busy, claim, claim_with, granted, keys_of, open, queue, run, until,
};

/// Opens a client behind a proxy. The client has a session.
async fn through(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::start(&server.0.address()).await.unwrap();
    let client = open(&server.through(proxy.address())).await;
    let mut first = claim(&client, "first", LONG);
    granted(&mut first).await;
    first.release().await.unwrap();
    (proxy, client)
}

/// Starts an attempt that the proxy holds back. Connections that are opened later work.
async fn held_up(proxy: &Proxy, client: &Client, name: &str) -> Box<dyn Claim> {
    let held = proxy.count(Fault::Held(Direction::ToServer));
    proxy.hold_open_ones(Direction::ToServer);
    let mut claim = claim_with(client, name, LONG, Duration::from_millis(300), Queueing::Queued);
    let error = claim.attempt().await.expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    until("it is on its way", SOON, || async { proxy.count(Fault::Held(Direction::ToServer)) > held }).await;
    claim
}

/// Releases as often as the core would: the proxy may hold the first release back, too.
async fn release(claim: &mut Box<dyn Claim>) -> Release {
    loop {
        match claim.release().await {
            Ok(release) => return release,
            Err(e) => assert!(e.is_transient(), "{e:?}"),
        }
    }
}

/// Returns a number that rises with each write request, even a refused one.
async fn raft_index(raw: &mut etcd_client::Client) -> u64 {
    raw.status().await.unwrap().raft_index()
}

/// Lets the held messages through. Returns whether the server has carried out the late attempt. It does not always: the
/// client has closed the connection behind it.
async fn delivered(proxy: &Proxy, raw: &mut etcd_client::Client) -> bool {
    let before = raft_index(raw).await;
    proxy.deliver_late(Direction::ToServer).await;
    let lands = async { while raft_index(raw).await == before {} };
    tokio::time::timeout(Duration::from_millis(200), lands).await.is_ok()
}

// Proves: request-late
pub(crate) fn a_late_attempt_finds_its_tombstone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        let mut carried_out = 0;
        for n in 0..20 {
            let name = format!("name {n}");
            let mut late = held_up(&proxy, &client, &name).await;
            assert_eq!(release(&mut late).await, Release::NotHeld);
            carried_out += u32::from(delivered(&proxy, &mut raw).await);
            let found = queue(&mut raw, &name).await;
            assert!(found.is_empty(), "{name}: the late attempt took a place: {found:?}");
        }
        println!("{carried_out} of 20 late attempts were carried out");
        if carried_out == 0 {
            void("no late attempt was carried out");
        }
    })
}

pub(crate) fn a_tombstone_lies_under_the_attempts_own_lease() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        let mut other = claim(&client, "other", LONG);
        granted(&mut other).await;
        let lease = queue(&mut raw, "other").await[0].lease();
        let mut late = held_up(&proxy, &client, "a").await;
        assert!(all(&mut raw, "a:lock~r/").await.is_empty());
        assert_eq!(release(&mut late).await, Release::NotHeld);
        let tombstones = all(&mut raw, "a:lock~r/").await;
        assert_eq!(tombstones.len(), 1);
        assert_eq!(tombstones[0].lease(), lease, "while the attempt can be carried out, it is there");
        assert_eq!(release(&mut late).await, Release::NotHeld, "one is enough");
        assert_eq!(all(&mut raw, "a:lock~r/").await.len(), 1);
        delivered(&proxy, &mut raw).await;
        assert!(queue(&mut raw, "a").await.is_empty());
        // If the lease has ended, the server itself refuses the attempt under it.
        let mut late = held_up(&proxy, &client, "b").await;
        raw.lease_revoke(lease).await.unwrap();
        assert_eq!(release(&mut late).await, Release::NotHeld);
        delivered(&proxy, &mut raw).await;
        assert!(queue(&mut raw, "b").await.is_empty());
    })
}

// Proves: request-late
pub(crate) fn a_key_with_attempts_in_flight_is_not_reused() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        let key = async |raw: &mut _| {
            let mut claim = claim(&client, "a", LONG);
            granted(&mut claim).await;
            let key = queue(raw, "a").await[0].key().to_vec();
            claim.release().await.unwrap();
            key
        };
        let before = key(&mut raw).await;
        assert_eq!(key(&mut raw).await, before);
        // The attempt stays unsettled, as when its runtime has ended.
        drop(held_up(&proxy, &client, "a").await);
        let after = key(&mut raw).await;
        assert_ne!(after, before);
        assert_eq!(key(&mut raw).await, after);
    })
}

// Proves: answer-lost
pub(crate) fn an_attempt_whose_answer_is_lost_is_undone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        proxy.hold_open_ones(Direction::ToClient);
        let mut claim = claim_with(&client, "a", LONG, Duration::from_millis(600), Queueing::Queued);
        let error = claim.attempt().await.expect_err("no answer came");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        until("it was done", SOON, || async { queue(&mut raw.clone(), "a").await.len() == 1 }).await;
        match claim.release().await {
            Ok(answer) => assert!(matches!(answer, Release::Released { .. }), "{answer:?}"),
            // The release was carried out but its answer came too late: when repeated, it has nothing to give up.
            Err(error) => {
                assert!(error.is_transient(), "{error:?}");
                release(&mut claim).await;
            }
        }
        assert!(queue(&mut raw, "a").await.is_empty());
    })
}

/// The answer is longer than the client accepts, which says nothing about what was done. Real places never have such
/// large values; the test writes them to make one answer too long.
pub(crate) fn an_attempt_whose_answer_cannot_be_read_is_undone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut beside = claim(&client, "beside", LONG);
        granted(&mut beside).await;
        let lease = raw.lease_grant(60, None).await.unwrap().id();
        for n in 0..3 {
            let (key, on) =
                ([b"a/\xffx-", n.to_string().as_bytes()].concat(), PutOptions::new().with_lease(lease));
            raw.put(key, vec![b'x'; LARGE], Some(on)).await.unwrap();
        }
        let mut unread = claim(&client, "a", LONG);
        let error = unread.attempt().await.expect_err("its answer is too long");
        assert!(keys_of(&mut raw, b"a/").await.len() == 4, "it was carried out");
        let release = unread.release().await;
        let left = keys_of(&mut raw, b"a/").await;
        assert_eq!(left.len(), 3, "it stays after {error:?} and {release:?}: {left:?}");
        assert!(matches!(release, Ok(Release::Released { .. })), "{release:?}");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        raw.lease_revoke(lease).await.unwrap();
        granted(&mut claim(&client, "a", LONG)).await;
    })
}

/// As after a panic that ends the claim's life: no release comes, and another lock keeps the session alive.
pub(crate) fn a_cut_short_claim_leaves_its_key_to_sessions() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        let (mut cut, mut waits) = (claim(&client, "a", LONG), claim(&client, "a", LONG));
        let mut kept = claim(&client, "b", LONG);
        granted(&mut cut).await;
        granted(&mut kept).await;
        assert!(busy(&mut waits).await.queued);
        drop((cut, waits));
        until("their keys are gone", SOON, || async { queue(&mut raw.clone(), "a").await.is_empty() }).await;
        // An attempt that may still arrive finds a tombstone. Not every one is carried out, because the client has
        // closed the connection behind it.
        let mut landed = false;
        for n in 0..8 {
            let (name, tombstones) = (format!("c{n}"), format!("c{n}:lock~r/"));
            drop(held_up(&proxy, &client, &name).await);
            until("its tombstone is there", SOON, || async {
                all(&mut raw.clone(), &tombstones).await.len() == 1
            })
            .await;
            landed = delivered(&proxy, &mut raw).await;
            assert!(queue(&mut raw, &name).await.is_empty());
            if landed {
                break;
            }
        }
        if !landed {
            void("no late attempt was carried out");
        }
        assert!(matches!(kept.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    })
}

/// As when the driver panics in the attempt: the core still releases the claim.
pub(crate) fn a_release_undoes_an_attempt_dropped_in_flight() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        proxy.hold_open_ones(Direction::ToClient);
        let mut dropped = claim(&client, "a", LONG);
        let there =
            until("the key is there", SOON, || async { queue(&mut raw.clone(), "a").await.len() == 1 });
        tokio::select! {
            attempt = dropped.attempt() => panic!("it has no answer: {attempt:?}"),
            () = there => {}
        }
        release(&mut dropped).await;
        assert!(queue(&mut raw, "a").await.is_empty());
        // An attempt that has not arrived yet finds a tombstone.
        let held = proxy.count(Fault::Held(Direction::ToServer));
        proxy.hold_open_ones(Direction::ToServer);
        let mut dropped = claim(&client, "b", LONG);
        let there = until("it is on its way", SOON, || async {
            proxy.count(Fault::Held(Direction::ToServer)) > held
        });
        tokio::select! {
            attempt = dropped.attempt() => panic!("it has no answer: {attempt:?}"),
            () = there => {}
        }
        assert_eq!(release(&mut dropped).await, Release::NotHeld);
        assert_eq!(all(&mut raw, "b:lock~r/").await.len(), 1, "its tombstone is there");
    })
}
