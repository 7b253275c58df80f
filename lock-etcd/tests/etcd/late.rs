//! Attempts that arrive after their release.

use std::time::Duration;

use lock_conformance::proxy::{Fault, Proxy, Way};
use lock_core::driver::{Claim, Release, Waits};
use lock_core::{Client, Done, ErrorKind};

use crate::server::{LONG, SOON, Server, all, claim, claim_with, granted, open, queue, run, until};

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

/// Not each one is carried out that arrives: its caller has hung up behind it.
pub(crate) fn a_late_attempt_finds_its_tombstone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (proxy, client) = through(&server).await;
        let mut raw = server.raw().await;
        for n in 0..20 {
            let name = format!("name {n}");
            let mut late = held_up(&proxy, &client, &name).await;
            assert_eq!(release(&mut late).await, Release::NotHeld);
            proxy.deliver(Way::ToServer);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let found = queue(&mut raw, &name).await;
            assert!(found.is_empty(), "{name}: a ghost: {found:?}");
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
        proxy.deliver(Way::ToServer);
        // A lease that has ended refuses by itself what is under it.
        let mut late = held_up(&proxy, &client, "b").await;
        raw.lease_revoke(lease).await.unwrap();
        assert_eq!(release(&mut late).await, Release::NotHeld);
        proxy.deliver(Way::ToServer);
        tokio::time::sleep(Duration::from_millis(200)).await;
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
            let key = queue(raw, "a").await[0].key_str().unwrap().to_owned();
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
