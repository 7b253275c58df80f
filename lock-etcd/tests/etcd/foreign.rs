//! Foreign clients of etcd's own lock recipe, and keys of deeper names.

use std::time::Duration;

use lock_conformance::proxy::{Direction, Proxy};
use lock_core::ErrorKind;
use lock_core::driver::{Attempt, Queueing, Renewal, Revoked, When};
use lock_etcd::etcd_client::{self, LeaseGrantOptions, LockOptions, PutOptions, Txn, TxnOp};

use crate::revoke::{holder, revoke, revoke_from};
use crate::server::{
    LARGE, LONG, PATIENCE, Server, busy, claim, claim_with, granted, keys_of, name, open, queue, run, until,
    wait_for, within,
};

/// The server's own lock service writes the same keys as Go's `concurrency.Mutex`.
pub(crate) fn etcds_own_lock_and_ours_exclude_each_other() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let lease = raw.lease_grant(60, None).await.unwrap().id();
        let theirs = raw.lock("foo", Some(LockOptions::new().with_lease(lease))).await.unwrap();
        for waits in [Queueing::No, Queueing::Queued] {
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
        let shown = holder(&client, "foo").await;
        let Revoked::FreeIn(left) = revoke(&client, "foo", When::HoldersDeadline).await else { panic!() };
        // The client that revoked it is its owner now. It cannot be revoked again, which would keep it for longer.
        assert_eq!(holder(&client, "foo").await.label.as_deref(), Some("an operator"));
        let again = revoke_from(&client, "foo", shown.owner, When::HoldersDeadline).await;
        assert_eq!(again, Revoked::NotHeld);
        until("it is free", left + Duration::from_secs(2), || async {
            let mut raw = raw.clone();
            queue(&mut raw, "foo").await.is_empty()
        })
        .await;
    })
}

// Proves: cleaned-text
pub(crate) fn a_foreign_lookalike_value_is_shown_in_one_line() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut ours = claim(&client, "foo", LONG);
        granted(&mut ours).await;
        let place = queue(&mut raw, "foo").await.remove(0);
        let value = "00000000000000000000000000000007 a\u{1b}[2J\nlock: b";
        raw.put(place.key(), value, Some(PutOptions::new().with_ignore_lease())).await.unwrap();
        let shown = holder(&client, "foo").await;
        assert_eq!(shown.label.as_deref(), Some("a [2J lock: b"));
        assert!(shown.to_string().starts_with("held by a [2J lock: b, lease ends in "), "{shown}");
    })
}

/// There are more keys of deeper names than one look reads, both older and newer than the places between them.
pub(crate) fn deeper_names_are_other_names() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut deeper = Vec::new();
        let mut more = async || {
            for _ in 0..14 {
                let mut claim = claim(&client, &format!("foo/bar {}", deeper.len()), LONG);
                granted(&mut claim).await;
                deeper.push(claim);
            }
        };
        more().await;
        let mut looks = claim_with(&client, "foo", LONG, PATIENCE, Queueing::No);
        granted(&mut looks).await;
        more().await;
        busy(&mut claim_with(&client, "foo", LONG, PATIENCE, Queueing::No)).await;
        let mut waits = claim(&client, "foo", LONG);
        assert!(busy(&mut waits).await.queued, "fourteen others stand between");
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

/// Writes keys as foreign clients of deeper names have them, each under one of these leases.
async fn make_deeper(raw: &mut etcd_client::Client, name: &str, count: usize, leases: &[i64]) {
    let put = |n: usize| {
        let lease = leases.get(n % leases.len().max(1));
        let options = lease.map(|lease| PutOptions::new().with_lease(*lease));
        TxnOp::put(format!("{name}/{n}/0123456789abcdef"), "", options)
    };
    for first in (0..count).step_by(100) {
        let puts: Vec<TxnOp> = (first..count.min(first + 100)).map(put).collect();
        raw.txn(Txn::new().and_then(puts)).await.unwrap();
    }
}

/// Grants `count` leases, as sessions of other clients have them.
async fn grant_leases(raw: &etcd_client::Client, count: usize) -> Vec<i64> {
    let granting = (0..16).map(|part| {
        let mut raw = raw.clone();
        tokio::spawn(async move {
            let mut leases = Vec::new();
            for _ in (part..count).step_by(16) {
                leases.push(raw.lease_grant(600, None).await.unwrap().id());
            }
            leases
        })
    });
    let mut leases = Vec::new();
    for granted in granting.collect::<Vec<_>>() {
        leases.extend(granted.await.unwrap());
    }
    leases
}

// Proves: etcd-names
/// Reading all keys, a few at a time, takes longer than any caller's patience.
pub(crate) fn many_deeper_names_delay_no_client() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut first = claim(&client, "first", LONG);
        granted(&mut first).await;
        let leases = grant_leases(&raw, 2_000).await;
        make_deeper(&mut raw, "up", 20_000, &leases).await;
        for waits in [Queueing::No, Queueing::Queued] {
            let mut holder = claim_with(&client, "up", LONG, PATIENCE, waits);
            within("it is free", Duration::from_millis(500), granted(&mut holder)).await;
            let mut waiter = claim(&client, "up", LONG);
            within("it is held", Duration::from_millis(500), busy(&mut waiter)).await;
            let looks = claim_with(&client, "up", LONG, PATIENCE, Queueing::No);
            within("it is held", Duration::from_millis(500), busy(&mut { looks })).await;
            within("it is released", Duration::from_millis(500), holder.release()).await.unwrap();
            within("it is handed over", Duration::from_millis(500), granted(&mut waiter)).await;
            waiter.release().await.unwrap();
        }
    })
}

/// Meanwhile the claim's key is at the head of the queue. If each attempt started over, no client would get the lock.
pub(crate) fn a_search_that_was_cut_short_goes_on() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let mut raw = server.raw().await;
        let leases = grant_leases(&raw, 4_000).await;
        make_deeper(&mut raw, "up", 5_000, &leases).await;
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        let mut first = claim(&client, "first", LONG);
        granted(&mut first).await;
        // The search needs at least ten requests, one after the other.
        proxy.delay(Direction::ToServer, Duration::from_millis(50));
        let mut claim = claim_with(&client, "up", LONG, Duration::from_millis(300), Queueing::Queued);
        let mut attempts = 1;
        loop {
            match claim.attempt().await {
                Ok(Attempt::Granted(_)) => break,
                Ok(Attempt::Busy(busy)) => panic!("it is free: {busy:?}"),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            attempts += 1;
            assert!(attempts < 20, "the search starts over each time");
        }
        assert!(attempts > 1, "one attempt was enough");
    })
}

/// Go's mutex waits for deeper names, too, so this test writes a foreign client's key by hand.
pub(crate) fn a_foreign_place_is_found_among_many_deeper_names() -> Result<(), String> {
    // With few leases, the recipe's keys are read; with more leases than keys, all keys are listed.
    for leases in [0, 600] {
        a_foreign_place_is_found(leases)?;
    }
    Ok(())
}

fn a_foreign_place_is_found(leases: usize) -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let leases = grant_leases(&raw, leases).await;
        make_deeper(&mut raw, "foo", 40, &leases).await;
        // The key sorts behind most of the others, so the transaction that takes a place does not show it.
        let behind = LeaseGrantOptions::new().with_id(0x7fff_0000_0000_0000);
        let lease = raw.lease_grant(60, Some(behind)).await.unwrap().id();
        let key = format!("foo/{lease:x}");
        let with_lease = || Some(PutOptions::new().with_lease(lease));
        raw.put(key.as_str(), "", with_lease()).await.unwrap();
        for waits in [Queueing::No, Queueing::Queued] {
            let mut ours = claim_with(&client, "foo", LONG, PATIENCE, waits);
            let holder = busy(&mut ours).await.holder.expect("no other claim is there");
            assert_eq!(holder.owner.to_string(), format!("{lease:x}"));
            ours.release().await.unwrap();
        }
        let seen = client.driver().inspect(&name("foo"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!(seen.owner.to_string(), format!("{lease:x}"));
        let mut ours = claim(&client, "foo", LONG);
        assert!(busy(&mut ours).await.queued);
        let waiting = tokio::spawn(async move {
            wait_for(&mut ours).await;
            ours
        });
        raw.delete(key.as_str(), None).await.unwrap();
        let mut ours = within("we have it", Duration::from_secs(5), waiting).await.unwrap();
        // A foreign place that comes later is behind ours: we do not wait for it.
        raw.put(key.as_str(), "", with_lease()).await.unwrap();
        granted(&mut ours).await;
        assert_eq!(
            ours.renew(LONG).await.map(|renewal| matches!(renewal, Renewal::Held { .. })).ok(),
            Some(true)
        );
        ours.release().await.unwrap();
    })
}

/// Three of the values are more than a client accepts in one answer. A lock does not need them.
pub(crate) fn what_others_keys_hold_is_not_asked_for() -> Result<(), String> {
    // Few keys, read by the transaction that takes a place; and many keys, listed because there are more leases.
    for (keys, leases) in [(0, 0), (40, 600)] {
        large_values_block_no_lock(keys, leases)?;
    }
    Ok(())
}

fn large_values_block_no_lock(keys: usize, leases: usize) -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        // This lock keeps the session alive, and with it any key that is left behind.
        let mut beside = claim(&client, "beside", LONG);
        granted(&mut beside).await;
        let leases = grant_leases(&raw, leases).await;
        make_deeper(&mut raw, "foo", keys, &leases).await;
        for n in 0..3 {
            raw.put(format!("foo/data/{n}"), vec![b'x'; LARGE], None).await.unwrap();
        }
        for waits in [Queueing::Queued, Queueing::No] {
            let mut ours = claim_with(&client, "foo", LONG, PATIENCE, waits);
            let attempt = ours.attempt().await;
            let release = ours.release().await;
            let places = keys_of(&mut raw, b"foo/\xff").await;
            assert!(places.is_empty(), "it stays after {attempt:?} and {release:?}: {places:?}");
            assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
        }
        let seen = client.driver().inspect(&name("foo"), PATIENCE).await.unwrap();
        assert!(seen.holder.is_none(), "{seen:?}");
    })
}

// Proves: error-kinds, expiry-removed
pub(crate) fn a_key_without_a_lease_is_rejected() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        raw.put("foo/x", "", Some(PutOptions::new())).await.unwrap();
        for waits in [Queueing::No, Queueing::Queued] {
            let mut claim = claim_with(&client, "foo", LONG, PATIENCE, waits);
            let error = claim.attempt().await.expect_err("the lock would never become free");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains("foo/x"), "{error}");
            claim.release().await.unwrap();
        }
        assert_eq!(queue(&mut raw, "foo").await.len(), 1);
    })
}
