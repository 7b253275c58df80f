//! Other clients of etcd's own lock recipe, and other keys.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::driver::{Revoked, Waits, When};
use lock_etcd::etcd_client::{LockOptions, PutOptions};

use crate::revoke::revoke;
use crate::server::{
    LONG, PATIENCE, Server, busy, claim, claim_with, granted, name, queue, run, until, wait_for, within,
};

/// The server's own lock service writes what Go's `concurrency.Mutex` writes.
pub(crate) fn etcds_own_lock_and_ours_exclude_each_other() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let lease = raw.lease_grant(60, None).await.unwrap().id();
        let theirs = raw.lock("foo", Some(LockOptions::new().with_lease(lease))).await.unwrap();
        for waits in [Waits::No, Waits::Queued] {
            let mut ours = claim_with(&client, "foo", LONG, PATIENCE, waits);
            busy(&mut ours).await;
            ours.release().await.unwrap();
        }
        let seen = client.driver().inspect(&name("foo"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!(seen.owner.to_string(), format!("{lease:x}"));
        assert_eq!(seen.label, None);
        let mut ours = claim(&client, "foo", LONG);
        busy(&mut ours).await;
        let waiting = tokio::spawn(async move {
            let grant = wait_for(&mut ours).await;
            (grant, ours)
        });
        raw.unlock(theirs.key()).await.unwrap();
        let (_, mut ours) = within("we have it", Duration::from_secs(5), waiting).await.unwrap();
        let mut locking = raw.clone();
        let theirs = tokio::spawn(async move {
            let with_lease = LockOptions::new().with_lease(lease);
            locking.lock("foo", Some(with_lease)).await.unwrap();
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!theirs.is_finished(), "they wait behind us");
        ours.release().await.unwrap();
        within("they have it", Duration::from_secs(5), theirs).await.unwrap();
    })
}

pub(crate) fn a_foreign_holder_can_be_revoked() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let lease = raw.lease_grant(2, None).await.unwrap().id();
        let with_lease = || Some(LockOptions::new().with_lease(lease));
        raw.lock("foo", with_lease()).await.unwrap();
        assert_eq!(revoke(&client, "foo", When::Now).await, Revoked::Free);
        raw.lock("foo", with_lease()).await.unwrap();
        let Revoked::FreeIn(left) = revoke(&client, "foo", When::HoldersDeadline).await else { panic!() };
        until("it is free", left + Duration::from_secs(2), || async {
            let mut raw = raw.clone();
            queue(&mut raw, "foo").await.is_empty()
        })
        .await;
    })
}

/// More of them than one look shows, newer and older than the places between them.
pub(crate) fn deeper_names_are_other_names() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut deeper = Vec::new();
        let mut more = async || {
            for _ in 0..9 {
                let mut claim = claim(&client, &format!("foo/bar {}", deeper.len()), LONG);
                granted(&mut claim).await;
                deeper.push(claim);
            }
        };
        more().await;
        let mut looks = claim_with(&client, "foo", LONG, PATIENCE, Waits::No);
        granted(&mut looks).await;
        more().await;
        busy(&mut claim_with(&client, "foo", LONG, PATIENCE, Waits::No)).await;
        let mut waits = claim(&client, "foo", LONG);
        assert!(busy(&mut waits).await.queued, "nine others stand between");
        more().await;
        assert!(busy(&mut waits).await.queued);
        let seen = client.driver().inspect(&name("foo"), PATIENCE).await.unwrap();
        assert_eq!((seen.holder.is_some(), seen.waiters.unwrap().len()), (true, 1));
        looks.release().await.unwrap();
        granted(&mut waits).await;
        waits.release().await.unwrap();
        granted(&mut claim(&client, "foo", LONG)).await;
    })
}

pub(crate) fn a_key_without_a_lease_is_rejected() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        raw.put("foo/x", "", Some(PutOptions::new())).await.unwrap();
        for waits in [Waits::No, Waits::Queued] {
            let mut claim = claim_with(&client, "foo", LONG, PATIENCE, waits);
            let error = claim.attempt().await.expect_err("nobody would ever get it");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains("foo/x"), "{error}");
            claim.release().await.unwrap();
        }
        assert_eq!(queue(&mut raw, "foo").await.len(), 1);
    })
}
