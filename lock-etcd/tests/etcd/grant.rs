//! The keys, leases and requests that a lock needs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Direction, Proxy};
use lock_core::driver::{Queueing, Release};
use lock_core::{Effect, ErrorKind};
use lock_etcd::etcd_client::{EventType, PutOptions, WatchOptions};

use crate::server::{
    LONG, PATIENCE, SOON, Server, all, busy, claim, claim_with, granted, open, queue, run, until,
};

pub(crate) async fn transactions(server: &Server) -> u64 {
    server.metric("grpc_server_handled_total", "grpc_method=\"Txn\"").await
}

async fn leases(server: &Server) -> usize {
    server.raw().await.leases().await.unwrap().leases().len()
}

pub(crate) fn acquire_and_release_take_one_transaction_each() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        // Opens the session, whose first heartbeat also reads.
        let mut first = claim(&client, "first", LONG);
        granted(&mut first).await;
        first.release().await.unwrap();
        until("it is proven", SOON, || async { transactions(&server).await == 3 }).await;
        // A claim that does not wait looks first, so that a held name costs a read only.
        for (waits, each) in [(Queueing::Queued, 2), (Queueing::No, 3)] {
            let before = transactions(&server).await;
            for _ in 0..10 {
                let mut claim = claim_with(&client, "a", LONG, PATIENCE, waits);
                granted(&mut claim).await;
                assert_eq!(claim.release().await.unwrap(), Release::Released { others: None });
            }
            assert_eq!(transactions(&server).await - before, 10 * each, "{waits:?}");
        }
    })
}

// Proves: prefix
pub(crate) fn a_locks_token_is_its_keys_create_revision() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (open(&format!("{}&prefix=app/", server.0.url())).await, server.raw().await);
        let mut claim = claim(&client, "foo", LONG);
        let grant = granted(&mut claim).await;
        let keys = queue(&mut raw, "app/foo").await;
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0].create_revision().unsigned_abs(), grant.token.get());
        let value = keys[0].value_str().unwrap();
        assert!(value.ends_with(" a test") && value.len() == 32 + " a test".len(), "{value}");
        assert!(keys[0].lease() != 0);
        claim.release().await.unwrap();
        assert!(all(&mut raw, "").await.is_empty(), "nothing is left");
    })
}

/// A new key would lengthen the history of its name; a key that is used again only gets another version.
pub(crate) fn keys_are_used_again() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let mut watch = raw.watch("a/", Some(WatchOptions::new().with_prefix())).await.unwrap();
        assert!(watch.message().await.unwrap().unwrap().created());
        for _ in 0..30 {
            let mut claim = claim(&client, "a", LONG);
            granted(&mut claim).await;
            claim.release().await.unwrap();
        }
        let (mut keys, mut puts) = (BTreeSet::new(), 0);
        while puts < 30 {
            let answer = watch.message().await.unwrap().unwrap();
            for event in answer.events().iter().filter(|event| event.event_type() == EventType::Put) {
                keys.insert(event.kv().unwrap().key().to_vec());
                puts += 1;
            }
        }
        assert_eq!(keys.len(), 1, "{keys:?}");
    })
}

/// The taken keys are like those of a client that has left its keys behind and whose session lives.
pub(crate) fn taken_keys_are_passed_over_one_by_one() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        for waits in [Queueing::Queued, Queueing::No] {
            let mut first = claim_with(&client, "a", LONG, PATIENCE, waits);
            granted(&mut first).await;
            let key_0 = queue(&mut raw, "a").await[0].key().to_vec();
            first.release().await.unwrap();
            drop(first);
            let lease = raw.lease_grant(60, None).await.unwrap().id();
            let key_1 = [key_0.strip_suffix(b"0").expect("the first number"), b"1"].concat();
            for key in [key_0, key_1] {
                let on = PutOptions::new().with_lease(lease);
                raw.put(key, "0123456789abcdef0123456789abcdef another", Some(on)).await.unwrap();
            }
            let mut third = claim_with(&client, "a", LONG, PATIENCE, waits);
            let busy = busy(&mut third).await;
            assert_eq!(busy.queued, waits == Queueing::Queued);
            if busy.queued {
                let keys = queue(&mut raw, "a").await;
                assert!(keys.len() == 3 && keys[2].key().ends_with(b"-2"), "{keys:?}");
            }
            // The lease has not ended yet: a number that one claim has passed over is not given to another claim
            // either.
            let mut fourth = claim(&client, "a", LONG);
            assert!(crate::server::busy(&mut fourth).await.queued);
            raw.lease_revoke(lease).await.unwrap();
            fourth.release().await.unwrap();
            granted(&mut third).await;
            third.release().await.unwrap();
        }
    })
}

/// Each claim takes a number before it sends a request. The claims are like as many tasks of one client that wait for
/// one name.
pub(crate) fn a_claim_costs_the_same_however_many_there_are() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let began = Instant::now();
        let mut claims: Vec<_> = (0..5_000).map(|_| claim(&client, "a", LONG)).collect();
        // Frees some numbers in the middle, and takes them again.
        claims.drain(1_000..4_000);
        claims.extend((0..5_000).map(|_| claim(&client, "a", LONG)));
        let took = began.elapsed();
        assert_in_time!(took < Duration::from_secs(5), "{} claims took {took:?}", claims.len());
    })
}

pub(crate) fn two_claims_of_one_client_have_two_keys() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let (mut first, mut second, mut third) =
            (claim(&client, "a", LONG), claim(&client, "a", LONG), claim(&client, "a", LONG));
        granted(&mut first).await;
        assert!(busy(&mut second).await.queued);
        assert!(busy(&mut third).await.queued);
        let keys: BTreeSet<Vec<u8>> = queue(&mut raw, "a").await.iter().map(|kv| kv.key().to_vec()).collect();
        assert_eq!(keys.len(), 3);
        second.release().await.unwrap();
        first.release().await.unwrap();
        granted(&mut third).await;
    })
}

pub(crate) fn a_lease_for_each_ttl_and_no_more() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut claims = Vec::new();
        for n in 0..20 {
            // The server counts whole seconds, so 29.5 s become 30 s.
            let ttl =
                [Duration::from_secs(10), Duration::from_secs(30), Duration::from_millis(29_500)][n % 3];
            let mut claim = claim(&client, &format!("name {n}"), ttl);
            granted(&mut claim).await;
            claims.push(claim);
        }
        assert_eq!(leases(&server).await, 2);
    })
}

// Proves: answer-lost
pub(crate) fn an_unanswered_lease_grant_is_settled() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        proxy.hold_open_ones(Direction::ToClient);
        let patience = Duration::from_millis(500);
        let mut claim = claim_with(&client, "a", LONG, patience, Queueing::Queued);
        let error = claim.attempt().await.expect_err("no answer came");
        assert_eq!(
            error.kind(),
            ErrorKind::Unavailable { effect: Effect::NotApplied },
            "no lock was asked for: {error:?}"
        );
        until("it was granted all the same", SOON, || async { leases(&server).await == 1 }).await;
        granted(&mut claim).await;
        until("it is the one in use", Duration::from_secs(2), || async { leases(&server).await == 1 }).await;
        proxy.deliver(Direction::ToClient);
    })
}

pub(crate) fn an_idle_session_is_closed() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut claim = claim(&client, "a", Duration::from_secs(1));
        granted(&mut claim).await;
        assert_eq!(leases(&server).await, 1);
        claim.release().await.unwrap();
        drop(claim);
        until("its lease is revoked", Duration::from_secs(2), || async { leases(&server).await == 0 }).await;
    })
}

pub(crate) fn a_client_that_goes_takes_its_leases_with_it() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut claim = claim(&client, "a", LONG);
        granted(&mut claim).await;
        claim.release().await.unwrap();
        drop((claim, client));
        until("its lease is revoked", Duration::from_secs(2), || async { leases(&server).await == 0 }).await;
    })
}

pub(crate) fn ttls_have_their_bounds() -> Result<(), String> {
    run(async {
        let server = Server::start();
        for (url, least) in [
            (server.0.url().to_owned(), 1),
            (server.0.url().replace("200ms", "500ms"), 3),
            (format!("etcd://{}", server.0.address()), 5),
        ] {
            let info = open(&url).await.info();
            assert_eq!(info.min_ttl, Duration::from_secs(least), "{url}");
            assert_eq!(info.max_ttl, Duration::from_secs(300));
            assert!(info.clock.contains("15247"), "the known limitation is named");
        }
    })
}
