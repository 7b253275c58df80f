//! Attempts that arrive after their release.

use std::time::Duration;

use lock_conformance::proxy::{Fault, Proxy, Way};
use lock_conformance::timing::void;
use lock_core::driver::{Claim, Release, Renewal, Waits};
use lock_core::{Client, Done, ErrorKind};
use lock_etcd::etcd_client::{self, PutOptions};

use crate::server::{
    LARGE, LONG, SOON, Server, all, busy, claim, claim_with, granted, keys_of, open, queue, run, until,
};

/// A client behind a proxy, with a session.
async fn through(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::start(&server.0.address()).await.unwrap();
    let client = open(&server.through(proxy.address())).await;
    let mut first = claim(&client, "first", LONG);
    granted(&mut first).await;
    first.release().await.unwrap();
    (proxy, client)
}

/// An attempt that hangs on its way; connections that are opened later work.
async fn held_up(proxy: &Proxy, client: &Client, name: &str) -> Box<dyn Claim> {
    let held = proxy.count(Fault::Held(Way::ToServer));
    proxy.hold_open_ones(Way::ToServer);
    let mut claim = claim_with(client, name, LONG, Duration::from_millis(300), Waits::Queued);
    let error = claim.attempt().await.expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::Unknown }, "{error:?}");
    until("it is on its way", SOON, || async { proxy.count(Fault::Held(Way::ToServer)) > held }).await;
    claim
}

/// Repeated as the core does: the first may go the way of the attempt.
async fn release(claim: &mut Box<dyn Claim>) -> Release {
    loop {
        match claim.release().await {
            Ok(release) => return release,
            Err(e) => assert!(e.is_transient(), "{e:?}"),
        }
    }
}

/// Rises with whatever asks to write, also if it is refused.
async fn raft_index(raw: &mut etcd_client::Client) -> u64 {
    raw.status().await.unwrap().raft_index()
}

/// What was held goes on, and reaches the server. Answers whether the server has carried it out: its caller has hung up
/// behind it, so that not each is.
async fn delivered(proxy: &Proxy, raw: &mut etcd_client::Client) -> bool {
    let before = raft_index(raw).await;
    proxy.deliver_late(Way::ToServer).await;
    let lands = async { while raft_index(raw).await == before {} };
    tokio::time::timeout(Duration::from_millis(200), lands).await.is_ok()
}

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
            assert!(found.is_empty(), "{name}: a ghost: {found:?}");
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
        // A lease that has ended refuses by itself what is under it.
        let mut late = held_up(&proxy, &client, "b").await;
        raw.lease_revoke(lease).await.unwrap();
        assert_eq!(release(&mut late).await, Release::NotHeld);
        delivered(&proxy, &mut raw).await;
        assert!(queue(&mut raw, "b").await.is_empty());
    })
}

pub(crate) fn a_slot_with_a_late_attempt_is_not_given_again() -> Result<(), String> {
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
        // Nobody has settled it: its runtime ended, perhaps.
        drop(held_up(&proxy, &client, "a").await);
        let after = key(&mut raw).await;
        assert_ne!(after, before);
        assert_eq!(key(&mut raw).await, after);
    })
}

pub(crate) fn an_attempt_whose_answer_is_lost_is_undone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        proxy.hold_open_ones(Way::ToClient);
        let mut claim = claim_with(&client, "a", LONG, Duration::from_millis(600), Waits::Queued);
        let error = claim.attempt().await.expect_err("no answer came");
        assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::Unknown }, "{error:?}");
        until("it was done", SOON, || async { queue(&mut raw.clone(), "a").await.len() == 1 }).await;
        match claim.release().await {
            Ok(answer) => assert!(matches!(answer, Release::Released { .. }), "{answer:?}"),
            // Carried out though its answer was late, it has nothing to give up when it is repeated.
            Err(error) => {
                assert!(error.is_transient(), "{error:?}");
                release(&mut claim).await;
            }
        }
        assert!(queue(&mut raw, "a").await.is_empty());
    })
}

/// More came back than a client takes: that says nothing of what was done. Places of ours hold no such values; these are
/// there so that one answer is too long.
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
        assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::Unknown }, "{error:?}");
        raw.lease_revoke(lease).await.unwrap();
        granted(&mut claim(&client, "a", LONG)).await;
    })
}

/// As when a panic ends its life: no claim releases it, and the session has another lock to live for.
pub(crate) fn a_claim_that_was_cut_short_leaves_its_key_to_the_session() -> Result<(), String> {
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
        // One that may yet arrive finds a tombstone. Not each is carried out: its caller has hung up behind it.
        let mut landed = false;
        for n in 0..8 {
            let (name, buried) = (format!("c{n}"), format!("c{n}:lock~r/"));
            drop(held_up(&proxy, &client, &name).await);
            until("it is buried", SOON, || async { all(&mut raw.clone(), &buried).await.len() == 1 }).await;
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

/// As when the driver panics in it: the core releases the claim all the same.
pub(crate) fn an_attempt_that_was_dropped_on_its_way_is_undone_by_its_release() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        proxy.hold_open_ones(Way::ToClient);
        let mut dropped = claim(&client, "a", LONG);
        let there =
            until("the key is there", SOON, || async { queue(&mut raw.clone(), "a").await.len() == 1 });
        tokio::select! {
            attempt = dropped.attempt() => panic!("it has no answer: {attempt:?}"),
            () = there => {}
        }
        release(&mut dropped).await;
        assert!(queue(&mut raw, "a").await.is_empty());
        // One that has not arrived yet finds a tombstone.
        let held = proxy.count(Fault::Held(Way::ToServer));
        proxy.hold_open_ones(Way::ToServer);
        let mut dropped = claim(&client, "b", LONG);
        let there =
            until("it is on its way", SOON, || async { proxy.count(Fault::Held(Way::ToServer)) > held });
        tokio::select! {
            attempt = dropped.attempt() => panic!("it has no answer: {attempt:?}"),
            () = there => {}
        }
        assert_eq!(release(&mut dropped).await, Release::NotHeld);
        assert_eq!(all(&mut raw, "b:lock~r/").await.len(), 1, "it is buried");
    })
}
