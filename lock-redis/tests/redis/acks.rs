//! Grants and renewals that replicas have to acknowledge.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lock_conformance::assert_in_time;
use lock_conformance::timing::{released, within};
use lock_core::driver::{Attempt, Claim, Release, Renewal};
use lock_core::{Client, Effect, Ending, Error, ErrorKind};
use lock_redis::Redis;
use lock_test_servers::{Owned, RedisCluster, RedisReplicas, Settings};

use crate::copies;
use crate::server::{Raw, Server, busy, claim, claim_with, granted, run, until};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };
const UNKNOWN: ErrorKind = ErrorKind::Unavailable { effect: Effect::Unknown };
const TTL: Duration = Duration::from_secs(20);
/// The patience of [`claim`].
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts a primary and two replicas, and waits until both acknowledge: after its first copy, a replica does so only a
/// second later.
async fn replicas() -> RedisReplicas {
    let servers = copies::replicas(&[]);
    let mut primary = copies::raw(&servers, 0).await;
    until("both acknowledge", async || {
        let _: () = primary.ask(&["SET", "written", "1"]).await;
        primary.ask::<u32>(&["WAIT", "2", "100"]).await == 2
    })
    .await;
    servers
}

/// Returns a client of the primary, which replicas acknowledge.
async fn client(servers: &RedisReplicas, query: &str) -> Client {
    let url = format!("{}?{}", servers.servers()[0].url(), query.trim_start_matches('&'));
    lock_redis::connect(&url).await.expect("the primary and its replicas are there")
}

fn pause(replicas: &[Owned]) {
    replicas.iter().for_each(|replica| replica.pause().unwrap());
}

fn resume(replicas: &[Owned]) {
    replicas.iter().for_each(|replica| replica.resume().unwrap());
}

/// Returns how many changes the server has made to its data.
async fn changes(server: &mut Raw) -> u64 {
    server.info("persistence", "rdb_changes_since_last_save").await.parse().unwrap()
}

/// Attempts, and expects that the replicas do not acknowledge the grant.
async fn taken_back(claim: &mut Box<dyn Claim>) -> Error {
    let asked = Instant::now();
    let error = claim.attempt().await.unwrap_err();
    assert_in_time!(asked.elapsed() < PATIENCE, "it took {:?}", asked.elapsed());
    assert_eq!(error.kind(), NOT_DONE, "{error}");
    assert!(error.message().contains("taken back"), "{error}");
    error
}

pub(crate) fn a_returned_grant_is_on_the_requested_replicas() {
    run(async {
        let servers = replicas().await;
        let mut copies = [copies::raw(&servers, 1).await, copies::raw(&servers, 2).await];
        let client = client(&servers, "ack=2").await;
        assert!(client.info().data_loss.contains("(ack=2)"), "{}", client.info().data_loss);
        for nth in 0..100 {
            let lock = format!("lock {nth}");
            let mut claim = claim(&client, &lock, 20_000);
            granted(&mut claim).await;
            for copy in &mut copies {
                assert_eq!(copy.ask::<u32>(&["EXISTS", &lock]).await, 1, "{lock}");
            }
            assert!(matches!(claim.renew(2 * TTL).await.unwrap(), Renewal::Held { .. }));
            for copy in &mut copies {
                assert!(copy.ask::<u128>(&["PTTL", &lock]).await > TTL.as_millis(), "{lock}");
            }
            assert!(matches!(claim.release().await.unwrap(), Release::Released { .. }));
        }
    });
}

// Proves: redis-failover
pub(crate) fn a_grant_that_no_replica_acknowledges_is_taken_back() {
    run(async {
        let servers = replicas().await;
        let mut primary = copies::raw(&servers, 0).await;
        for query in ["ack=1", "ack=1&fair=true", "ack=1&layout=redisson"] {
            let (client, plain) =
                (client(&servers, query).await, client(&servers, query.trim_start_matches("ack=1")).await);
            let mut waiter = claim(&client, "a", 20_000);
            pause(&servers.servers()[1..]);
            let error = taken_back(&mut waiter).await;
            assert!(error.message().contains("(0; ack=1)"), "{error}");
            assert_eq!(primary.ask::<u32>(&["EXISTS", "a"]).await, 0, "{query}");
            let mut other = claim(&plain, "a", 20_000);
            granted(&mut other).await;
            busy(&mut waiter).await;
            other.release().await.unwrap();
            resume(&servers.servers()[1..]);
            granted(&mut waiter).await;
            waiter.release().await.unwrap();
        }
    });
}

// Proves: redis-failover
pub(crate) fn a_holder_without_acknowledged_renewals_learns_in_time() {
    run(async {
        let servers = replicas().await;
        let client = client(&servers, "ack=1").await;
        let ttl = Duration::from_millis(1500);
        let lock = client.lock("a").ttl(ttl).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let taken = Instant::now();
        pause(&servers.servers()[1..]);
        within("it is told", 2 * ttl, guard.lost()).await;
        // The last renewal that was acknowledged was sent before the pause.
        assert_in_time!(taken.elapsed() < ttl, "it was told after {:?}", taken.elapsed());
        assert!(matches!(guard.release().await, Ending::Expired | Ending::Released));
        resume(&servers.servers()[1..]);
        released(within("it is free", PATIENCE + ttl, lock.acquire()).await.unwrap()).await;
    });
}

/// `WAIT` is about the last write of its connection, and on some servers it answers at once that all replicas
/// have it if there was none. So each request of a holder writes, also one that changes nothing.
pub(crate) fn every_request_of_a_holder_writes() {
    run(async {
        let servers = replicas().await;
        let mut primary = copies::raw(&servers, 0).await;
        for query in ["ack=1", "ack=1&fair=true", "ack=1&layout=redisson"] {
            let client = client(&servers, query).await;
            let mut holder = claim(&client, "a", 20_000);
            granted(&mut holder).await;
            holder.renew(3 * TTL).await.unwrap();
            for attempts in [true, false] {
                let before = changes(&mut primary).await;
                if attempts {
                    granted(&mut holder).await;
                } else {
                    assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
                }
                assert!(changes(&mut primary).await > before, "{query}, attempts: {attempts}");
            }
            pause(&servers.servers()[1..]);
            assert_eq!(holder.renew(TTL).await.unwrap_err().kind(), UNKNOWN);
            resume(&servers.servers()[1..]);
            holder.renew(TTL).await.unwrap();
            holder.release().await.unwrap();
        }
    });
}

pub(crate) fn opening_says_what_is_missing() {
    run(async {
        let alone = Server::start(&[]);
        let error = lock_redis::connect(&alone.url("?ack=1")).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains("(0; ack=1)"), "{error}");
        let lazy = alone.client("?ack=1&lazy=true").await;
        taken_back(&mut claim(&lazy, "a", 20_000)).await;
        let findings = lazy.check().await.unwrap();
        assert!(findings.iter().any(|found| found.message.contains("no lock can be taken")), "{findings:?}");

        let servers = replicas().await;
        let error = lock_redis::connect(&format!("{}?ack=3", servers.url())).await.unwrap_err();
        assert!(error.message().contains("(2; ack=3)"), "{error}");
        let forbid = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-wait"];
        let _: () = copies::raw(&servers, 0).await.ask(&forbid).await;
        let url = servers.servers()[0].url().replace("//", "//u:p@");
        let error = lock_redis::connect(&format!("{url}?ack=1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.message().contains("needs the command WAIT"), "{error}");
        assert!(!error.to_string().contains("u:p"), "{error}");
    });
}

pub(crate) fn an_attempt_that_is_given_up_leaves_nothing() {
    run(async {
        let servers = replicas().await;
        let client = client(&servers, "ack=1").await;
        let mut primary = copies::raw(&servers, 0).await;
        let mut before = claim(&client, "a", 20_000);
        granted(&mut before).await;
        before.release().await.unwrap();
        pause(&servers.servers()[1..]);
        let mut given_up = claim(&client, "a", 20_000);
        let attempt = tokio::time::timeout(Duration::from_millis(50), given_up.attempt()).await;
        assert!(attempt.is_err(), "the replicas do not answer");
        assert_eq!(primary.ask::<u32>(&["EXISTS", "a"]).await, 1, "and the primary has");
        assert!(matches!(given_up.release().await.unwrap(), Release::Released { .. }));
        assert_eq!(primary.ask::<u32>(&["EXISTS", "a"]).await, 0);
        // One that waits behind another's replicas is not sent at all.
        let mut first = claim_with(&client, "b", 20_000, Duration::from_secs(5));
        let (first, ()) = tokio::join!(first.attempt(), async {
            until("the first is sent", async || primary.ask::<u32>(&["EXISTS", "b"]).await == 1).await;
            let mut second = claim(&client, "c", 20_000);
            let attempt = tokio::time::timeout(Duration::from_millis(50), second.attempt()).await;
            assert!(attempt.is_err(), "it waits for its turn");
            resume(&servers.servers()[1..]);
        });
        assert!(matches!(first.unwrap(), Attempt::Granted(_)));
        granted(&mut claim(&client, "d", 20_000)).await;
        let keys = primary.keys().await;
        assert!(!keys.iter().any(|key| key.starts_with('c')), "it was never sent: {keys:?}");
    });
}

pub(crate) fn batched_calls_share_one_wait_within_their_patience() {
    run(async {
        let servers = replicas().await;
        let client = client(&servers, "ack=1").await;
        let mut primary = copies::raw(&servers, 0).await;
        granted(&mut claim(&client, "a", 20_000)).await;
        let before = primary.calls("wait").await;
        let attempts = (0..64).map(|nth| {
            let mut claim = claim(&client, &format!("lock {nth}"), 20_000);
            async move { claim.attempt().await }
        });
        // No replica acknowledges the first of them before all are asked for, so they are of one moment on a busy
        // machine, too.
        pause(&servers.servers()[1..]);
        let (attempts, ()) = tokio::join!(futures_util::future::join_all(attempts), async {
            until("one is sent", async || primary.ask::<u32>(&["EXISTS", "lock 0"]).await == 1).await;
            resume(&servers.servers()[1..]);
        });
        for attempt in attempts {
            assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
        }
        let waits = primary.calls("wait").await - before;
        assert!(waits <= 4, "{waits} for 64 attempts of one moment");

        // One whose time is over does not end the wait of the others. Both are sent together, after the first.
        pause(&servers.servers()[1..]);
        let mut first = claim_with(&client, "first", 20_000, Duration::from_millis(60));
        let mut hasty = claim_with(&client, "hasty", 20_000, Duration::from_millis(400));
        let mut patient = claim_with(&client, "patient", 20_000, Duration::from_secs(5));
        let (first, (hasty, patient, ())) = tokio::join!(first.attempt(), async {
            until("the first is sent", async || primary.ask::<u32>(&["EXISTS", "first"]).await == 1).await;
            tokio::join!(hasty.attempt(), patient.attempt(), async {
                tokio::time::sleep(Duration::from_millis(800)).await;
                resume(&servers.servers()[1..]);
            })
        });
        assert!(first.unwrap_err().is_transient());
        let error = hasty.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(matches!(patient.unwrap(), Attempt::Granted(_)));
    });
}

pub(crate) fn an_ended_runtime_leaves_no_unsent_queue() {
    let lasting = tokio::runtime::Runtime::new().unwrap();
    let (_servers, client) = lasting.block_on(async {
        let servers = replicas().await;
        let client = client(&servers, "ack=1").await;
        granted(&mut claim(&client, "warm", 20_000)).await;
        (servers, client)
    });
    let ending = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    {
        // The call is queued. This runtime does not run, and so not the task that sends it.
        let _entered = ending.enter();
        assert!(claim(&client, "left", 20_000).attempt().now_or_never().is_none());
    }
    drop(ending);
    lasting.block_on(async { granted(&mut claim(&client, "a", 20_000)).await });
}

pub(crate) fn a_members_replica_acknowledges_on_a_cluster() {
    run(async {
        let cluster = RedisCluster::start(&Settings::default()).expect("another was started before");
        let client = lock_redis::connect(&cluster.url("?ack=1")).await.unwrap();
        let mut locks: Vec<_> = (0..12).map(|nth| claim(&client, &format!("lock {nth}"), 20_000)).collect();
        for lock in &mut locks {
            granted(lock).await;
            lock.renew(TTL).await.unwrap();
            lock.release().await.unwrap();
        }
        pause(&cluster.members()[3..]);
        for lock in &mut locks {
            taken_back(lock).await;
        }
        resume(&cluster.members()[3..]);
        let error = lock_redis::connect(&cluster.url("?ack=2")).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains("(1; ack=2)"), "{error}");
    });
}

pub(crate) fn a_node_of_redlock_has_no_acknowledgements() {
    let redis = Redis::from_url("redis://a?ack=1").unwrap();
    let (clock, random) = (lock_core::Clock::system(), lock_core::Random::system());
    let context = lock_core::driver::Context::new(clock, random, PATIENCE);
    let error = lock_redis::node::Node::new(redis, context, std::sync::Arc::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
