//! Locks that disappear while they are held.

use std::time::{Duration, Instant};

use lock_core::LossReason;
use lock_core::driver::Renewal;
use lock_etcd::etcd_client::PutOptions;

use crate::server::{LONG, Server, busy, claim, granted, is_told, queue, run, told, wait_for, within};

/// Heartbeats come every twenty seconds, so only the watch can be this quick.
const AT_ONCE: Duration = Duration::from_secs(2);

// Proves: key-deleted
pub(crate) fn a_deleted_key_is_told_at_once() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut claim = claim(&client, "a", LONG);
        granted(&mut claim).await;
        assert!(told(&mut claim, Duration::from_millis(300)).await.is_none(), "nothing has happened");
        let key = queue(&mut raw, "a").await[0].key().to_vec();
        raw.delete(key, None).await.unwrap();
        assert_eq!(is_told(&mut claim, AT_ONCE).await, LossReason::Gone);
    })
}

// Proves: flushed-or-killed
/// As a former leader may do that stood still.
pub(crate) fn a_revoked_lease_is_told_at_once() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut claim = claim(&client, "a", LONG);
        granted(&mut claim).await;
        assert!(told(&mut claim, Duration::from_millis(300)).await.is_none());
        let lease = queue(&mut raw, "a").await[0].lease();
        raw.lease_revoke(lease).await.unwrap();
        let cause = is_told(&mut claim, AT_ONCE).await;
        assert!(matches!(cause, LossReason::Session | LossReason::Gone), "{cause:?}");
        claim.release().await.unwrap();
        granted(&mut claim).await;
    })
}

// Proves: key-deleted
pub(crate) fn a_waiter_whose_key_is_gone_queues_again() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, mut raw) = (server.client().await, server.client().await, server.raw().await);
        let (mut holder, mut waiter) = (claim(&client, "a", LONG), claim(&other, "a", LONG));
        granted(&mut holder).await;
        assert!(busy(&mut waiter).await.queued);
        let place = queue(&mut raw, "a").await[1].clone();
        raw.lease_revoke(place.lease()).await.unwrap();
        let waiting = tokio::spawn(async move { wait_for(&mut waiter).await });
        while queue(&mut raw, "a").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        holder.release().await.unwrap();
        let grant = within("it is woken", AT_ONCE, waiting).await.unwrap();
        assert!(grant.token.get() > place.create_revision().unsigned_abs());
    })
}

/// The session lives, and so does another lock in it. A key that was deleted and written again is another place.
pub(crate) fn a_proof_covers_the_lock_not_the_session() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let ttl = Duration::from_secs(6);
        let (mut lost, mut kept) = (claim(&client, "a", ttl), claim(&client, "b", ttl));
        granted(&mut lost).await;
        granted(&mut kept).await;
        let key = queue(&mut raw, "a").await[0].clone();
        let with_lease = PutOptions::new().with_lease(key.lease());
        raw.delete(key.key(), None).await.unwrap();
        raw.put(key.key(), key.value(), Some(with_lease)).await.unwrap();
        // Until there is a later proof, an earlier one may be passed on, but for no longer than it is valid.
        let last = Instant::now() + ttl;
        let cause = loop {
            let asked = Instant::now();
            match lost.renew(ttl).await.unwrap() {
                Renewal::Held { valid_for, .. } => {
                    assert!(asked + valid_for <= last, "proven by the session alone");
                }
                Renewal::Lost(cause) => break cause,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(cause, LossReason::Gone);
        assert!(matches!(kept.renew(ttl).await.unwrap(), Renewal::Held { .. }));
    })
}
