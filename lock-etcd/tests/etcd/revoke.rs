//! Locks that are revoked.

use std::time::Duration;

use lock_core::driver::{Entry, Release, Revocation, Revoked, When};
use lock_core::{Client, Label, LossReason, Owner, OwnerBytes, Random};

use crate::server::{LONG, PATIENCE, SOON, Server, claim, granted, is_told, name, queue, run, told, until};

pub(crate) async fn revoke(client: &Client, lock: &str, when: When) -> Revoked {
    let holder = holder(client, lock).await.owner;
    revoke_from(client, lock, holder, when).await
}

pub(crate) async fn holder(client: &Client, lock: &str) -> Entry {
    client.driver().inspect(&name(lock), PATIENCE).await.unwrap().holder.expect("it is held")
}

pub(crate) async fn revoke_from(client: &Client, lock: &str, holder: OwnerBytes, when: When) -> Revoked {
    let (by, label) = (Owner::mint(&Random::system()), Label::new("an operator"));
    let patience = Duration::from_secs(1);
    let revocation = Revocation::new(holder, by, label, when, patience);
    client.driver().revoke(&name(lock), revocation).await.unwrap()
}

pub(crate) fn a_revoked_key_is_on_a_lease_without_heartbeats() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, mut raw) = (server.client().await, server.client().await, server.raw().await);
        let ttl = Duration::from_secs(2);
        let mut holder = claim(&client, "a", ttl);
        granted(&mut holder).await;
        let before = queue(&mut raw, "a").await[0].clone();
        let Revoked::FreeIn(left) = revoke(&other, "a", When::HoldersDeadline).await else { panic!() };
        assert!(left >= ttl && left <= ttl * 2, "{left:?}");
        let after = queue(&mut raw, "a").await[0].clone();
        assert_eq!((after.key(), after.create_revision()), (before.key(), before.create_revision()));
        assert_ne!(after.lease(), before.lease());
        let terms = raw.lease_time_to_live(after.lease(), None).await.unwrap();
        assert!(terms.granted_ttl().unsigned_abs() >= ttl.as_secs());
        assert_eq!(queue(&mut raw, "a").await.len(), 1, "the key stays until its lease ends");
        until("it is free", left + Duration::from_secs(2), || async {
            let mut raw = raw.clone();
            queue(&mut raw, "a").await.is_empty()
        })
        .await;
    })
}

pub(crate) fn a_release_removes_only_its_revoked_key() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, mut raw) = (server.client().await, server.client().await, server.raw().await);
        for times in 1..=2 {
            let mut holder = claim(&client, "a", LONG);
            granted(&mut holder).await;
            for _ in 0..times {
                assert!(matches!(revoke(&other, "a", When::HoldersDeadline).await, Revoked::FreeIn(_)));
            }
            let release = holder.release().await.unwrap();
            assert!(matches!(release, Release::Released { .. }), "revoked {times} times: {release:?}");
            assert!(queue(&mut raw, "a").await.is_empty());
            assert_eq!(holder.release().await.unwrap(), Release::NotHeld, "a release frees it once");
        }
        // A key that is deleted and written again does not belong to this owner.
        let mut holder = claim(&client, "a", LONG);
        granted(&mut holder).await;
        let key = queue(&mut raw, "a").await[0].key().to_vec();
        raw.delete(key.clone(), None).await.unwrap();
        raw.put(key.clone(), "another's", None).await.unwrap();
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld);
        assert_eq!(queue(&mut raw, "a").await[0].value(), b"another's");
    })
}

/// Heartbeats come every twenty seconds, so the holder is told by a watch.
pub(crate) fn a_holder_is_told_that_it_was_revoked() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other) = (server.client().await, server.client().await);
        for (when, lock) in [(When::HoldersDeadline, "a"), (When::Now, "b")] {
            let mut holder = claim(&client, lock, LONG);
            granted(&mut holder).await;
            assert!(told(&mut holder, Duration::from_millis(300)).await.is_none());
            revoke(&other, lock, when).await;
            assert_eq!(is_told(&mut holder, Duration::from_secs(2)).await, LossReason::Revoked, "{when:?}");
            holder.release().await.unwrap();
            granted(&mut claim(&other, lock, LONG)).await;
        }
    })
}

/// A move puts a key onto a fresh lease only if the key is unchanged since it was last seen.
pub(crate) fn what_was_revoked_is_not_moved_back() -> Result<(), String> {
    use crate::cluster::{Cluster, leader_moves};

    run(async {
        let cluster = Cluster::start().await;
        let (client, other) = (cluster.client().await, cluster.client().await);
        let mut raw = cluster.raw(0).await;
        let ttl = Duration::from_secs(9);
        let (mut revoked, mut kept) = (claim(&client, "a", ttl), claim(&client, "b", ttl));
        granted(&mut revoked).await;
        granted(&mut kept).await;
        revoke(&other, "a", When::HoldersDeadline).await;
        let (of_a, of_b) = (queue(&mut raw, "a").await[0].lease(), queue(&mut raw, "b").await[0].lease());
        leader_moves(&cluster).await;
        until("the others were moved", SOON, || async {
            let mut raw = raw.clone();
            queue(&mut raw, "b").await[0].lease() != of_b
        })
        .await;
        assert_eq!(queue(&mut raw, "a").await[0].lease(), of_a);
        assert_eq!(is_told(&mut revoked, ttl).await, LossReason::Revoked);
    })
}
