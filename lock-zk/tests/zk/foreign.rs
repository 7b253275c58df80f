//! Other clients' nodes in our directories, and revokes.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::ErrorKind;
use lock_core::driver::{Claim, Entry, Inspection, Queueing, Release, Renewal, Revocation, Revoked, When};
use lock_core::{Client, Label, LossReason, Owner, OwnerBytes, Random, Result};
use lock_zk::zookeeper_client::{self, Acl, Acls, AuthId, CreateMode, Permission};

use crate::server::{
    LONG, PATIENCE, Server, TTL, busy, children, claim, driver, granted, name, run, until, within,
};
use lock_conformance::timing::released;

const CURATORS: &str = "_c_6d1a2f0c-7a3e-4a57-9c2f-0b1e2d3c4f5a-lock-";
const KAZOOS: &str = "6d1a2f0c7a3e4a579c2f0b1e2d3c4f5a__lock__";

/// Enters the queue as another client does by its recipe. Returns the node's name.
async fn create_node(raw: &zookeeper_client::Client, prefix: &str, data: &[u8]) -> String {
    raw.create("/a", &[], &CreateMode::Container.with_acls(Acls::anyone_all())).await.ok();
    let node = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = raw.create(&format!("/a/{prefix}"), data, &node).await.unwrap();
    format!("{prefix}{sequence}")
}

async fn inspect(client: &Client) -> Inspection {
    driver(client).inspect(&name("a"), PATIENCE).await.unwrap()
}

async fn revoke(client: &Client, holder: OwnerBytes, when: When) -> Result<Revoked> {
    let (by, label) = (Owner::mint(&Random::system()), Label::new("who revokes"));
    driver(client).revoke(&name("a"), Revocation::new(holder, by, label, when, PATIENCE)).await
}

async fn respected_and_shown(prefix: &str) {
    let server = Server::start();
    let (client, raw) = (server.client().await, server.raw().await);
    let first = create_node(&raw, prefix, b"10.0.0.7").await;
    assert!(!busy(&mut claim(&client, "a", TTL, Queueing::No)).await.queued);
    let mut waiter = claim(&client, "a", LONG, Queueing::Queued);
    assert!(busy(&mut waiter).await.queued);
    let behind = create_node(&raw, prefix, b"10.0.0.7").await;
    let Inspection { holder, waiters, .. } = inspect(&client).await;
    let Entry { owner, label, token, .. } = holder.unwrap();
    assert_eq!((owner.as_bytes(), label), (first.as_bytes(), None));
    assert!(token.is_some());
    let waiters = waiters.unwrap();
    assert_eq!(waiters.len(), 2);
    assert_eq!(
        (waiters[0].label.as_deref(), waiters[1].owner.as_bytes()),
        (Some("an owner"), behind.as_bytes())
    );
    waiter.listen().await.unwrap();
    raw.delete(&format!("/a/{first}"), None).await.unwrap();
    within("it is told", TTL, waiter.changed()).await;
    granted(&mut waiter).await;
    assert_eq!(waiter.release().await.unwrap(), Release::Released { others: Some(true) });
}

pub(crate) fn curators_nodes_are_respected_and_shown() -> Result<(), String> {
    run(respected_and_shown(CURATORS))
}

pub(crate) fn kazoos_nodes_are_respected_and_shown() -> Result<(), String> {
    run(respected_and_shown(KAZOOS))
}

/// Another client may have rights of its own for its nodes. A list still shows them.
pub(crate) fn an_unreadable_node_is_waited_for() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        let first = create_node(&raw, CURATORS, b"10.0.0.7").await;
        let path = format!("/a/{first}");
        raw.auth("digest", b"curator:its own").await.unwrap();
        let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
        raw.set_acl(&path, &own, None).await.unwrap();
        assert!(!busy(&mut claim(&client, "a", TTL, Queueing::No)).await.queued);
        let mut waiter = claim(&client, "a", LONG, Queueing::Queued);
        let waits = busy(&mut waiter).await;
        assert!(waits.queued && !waits.listens, "the node ahead can't be watched: {waits:?}");
        assert_eq!(waiter.listen().await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(busy(&mut waiter).await.queued, "the claim asks again");
        let lock = client.lock("a").ttl(LONG).build().unwrap();
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        until("both wait", TTL, || async { children(&raw, "/a").await.len() == 3 }).await;
        raw.delete(&path, None).await.unwrap();
        granted(&mut waiter).await;
        waiter.release().await.unwrap();
        let guard = within("it is its turn", LONG, acquiring).await.unwrap().unwrap();
        released(guard).await;
    })
}

// Proves: error-kinds
pub(crate) fn a_foreign_holder_is_only_broken_now() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        let node = create_node(&raw, CURATORS, b"10.0.0.7").await;
        let holder = inspect(&client).await.holder.unwrap().owner;
        let error = revoke(&client, holder.clone(), When::HoldersDeadline).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains("--now"), "{error}");
        assert_eq!(raw.get_data(&format!("/a/{node}")).await.unwrap().0, b"10.0.0.7", "it is left as it was");
        assert_eq!(revoke(&client, holder, When::Now).await.unwrap(), Revoked::Free);
        granted(&mut claim(&client, "a", TTL, Queueing::No)).await;
    })
}

/// The bytes are those that Curator's `Revoker` writes.
pub(crate) fn a_holder_asked_to_release_is_notified() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        let guard = client.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap();
        let node = children(&raw, "/a").await.remove(0);
        raw.set_data(&format!("/a/{node}"), b"__REVOKE__", None).await.unwrap();
        let cause = within("it is told at its next renewal", TTL, guard.lost()).await;
        assert_eq!(cause, LossReason::Revoked);
    })
}

pub(crate) fn a_revoked_node_goes_at_its_holders_deadline() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, raw) = (server.client().await, server.client().await, server.raw().await);
        let mut holder: Box<dyn Claim> = claim(&client, "a", TTL, Queueing::Queued);
        let began = Instant::now();
        let certain = granted(&mut holder).await.valid_for;
        let seen = inspect(&other).await.holder.unwrap();
        assert_eq!(
            revoke(&other, seen.owner.clone(), When::HoldersDeadline).await.unwrap(),
            Revoked::FreeIn(TTL)
        );
        let revoked = inspect(&other).await.holder.unwrap();
        assert_eq!(revoked.label.as_deref(), Some("who revokes"), "the revoker is shown as the holder");
        assert_eq!(
            revoke(&other, seen.owner, When::Now).await.unwrap(),
            Revoked::NotHeld,
            "the node that was shown is revoked already"
        );
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Revoked));
        assert_eq!(children(&raw, "/a").await.len(), 1, "the holder may rely on it until its deadline");
        until("it goes", TTL * 2, || async { children(&raw, "/a").await.is_empty() }).await;
        let took = began.elapsed();
        assert!(took >= certain, "after {took:?} of {certain:?}");
        assert_in_time!(took < TTL * 2 + Duration::from_millis(500), "after {took:?}");
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld, "the node is gone");
        // The owner may attempt again. If that node is revoked, too, its release removes it when the work has ended.
        let mut again = claim(&client, "a", LONG, Queueing::Queued);
        granted(&mut again).await;
        for _ in 0..2 {
            let seen = inspect(&other).await.holder.unwrap();
            revoke(&other, seen.owner, When::HoldersDeadline).await.unwrap();
        }
        assert!(matches!(again.release().await.unwrap(), Release::Released { .. }));
        assert_eq!(children(&raw, "/a").await.len(), 0);
    })
}
