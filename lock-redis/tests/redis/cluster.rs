//! Locks on a cluster: who is asked, what moves, and what a failover costs.

use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::assert_in_time;
use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Release, Renewal};
use lock_core::{Client, Effect, Ending, ErrorKind, FencingToken};
use lock_test_servers::{RedisCluster, Settings};

use crate::server::{busy, claim, claim_with, granted, name, raw_at, run, until};
use crate::shards::listeners;

const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// Within this time, a waiter whose member is dead has read which other one has its place: it asks every 250 ms.
const SLOTS_ARE_READ: Duration = Duration::from_millis(400);

pub(crate) fn start() -> RedisCluster {
    RedisCluster::start(&Settings::default()).expect("another was started before")
}

pub(crate) async fn client(cluster: &RedisCluster) -> Client {
    lock_redis::connect(&cluster.url("")).await.expect("the cluster can be reached")
}

/// The slot of a name, as the cluster specification defines it, bit by bit.
pub(crate) fn slot(name: &str) -> u16 {
    let crc = name.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

pub(crate) fn each_lock_is_at_its_slots_member() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let mut used = [false; 6];
        for nth in 0..24 {
            let lock = format!("lock {nth}");
            let mut holder = claim(&a, &lock, 20_000);
            let first = granted(&mut holder).await.token;
            busy(&mut claim(&b, &lock, 20_000)).await;
            let shown = b.driver().inspect(&name(&lock), PATIENCE).await.unwrap().holder.unwrap();
            assert_eq!(shown.token, Some(first));
            assert!(matches!(holder.renew(Duration::from_secs(20)).await.unwrap(), Renewal::Held { .. }));
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
            let mut next = claim(&b, &lock, 20_000);
            assert!(granted(&mut next).await.token > first);
            next.release().await.unwrap();
            used[cluster.primary_of(slot(&lock), 0).unwrap()] = true;
        }
        assert_eq!(used, [true, true, true, false, false, false]);
    });
}

pub(crate) fn a_release_wakes_a_waiter_of_another_client() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        for nth in 0..6 {
            let lock = format!("lock {nth}");
            let guard = a.lock(lock.as_str()).build().unwrap().acquire().await.unwrap();
            let mut waiter = claim(&b, &lock, 20_000);
            busy(&mut waiter).await;
            waiter.listen().await.unwrap();
            assert_eq!(guard.release().await, Ending::Released);
            within("it is told", SOON, waiter.changed()).await;
            granted(&mut waiter).await;
            waiter.release().await.unwrap();
        }
    });
}

/// While the slot moves, keys are at one member or at the other one, and a lock has two.
pub(crate) fn a_moving_slot_keeps_the_lock_and_waiter() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let slot = slot("n");
        let from = cluster.primary_of(slot, 0).unwrap();
        let to = (from + 1) % 3;
        let guard = a.lock("n").ttl(Duration::from_secs(20)).build().unwrap().acquire().await.unwrap();
        let lock = b.lock("n").ttl(Duration::from_secs(20)).build().unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        let listens = client(&cluster).await;
        let mut listener = claim(&listens, "n", 20_000);
        busy(&mut listener).await;
        listener.listen().await.unwrap();
        let renews = async |when: &str| {
            let renewed = guard.renew(Duration::from_secs(20)).await;
            assert!(renewed.is_ok(), "{when}: {renewed:?}");
        };
        cluster.begin_to_move(slot, from, to).unwrap();
        renews("the slot begins to move").await;
        // A name in the same slot that no client has used: neither of its keys is anywhere, and no member
        // takes a request about two such keys. It can be locked when the slot has moved.
        let unused = (0..100_000).map(|nth| format!("m{nth}")).find(|name| self::slot(name) == slot).unwrap();
        let mut fresh = claim(&a, &unused, 20_000);
        let error = fresh.attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error}");
        for key in cluster.keys_of(slot, from).unwrap() {
            cluster.move_key(&key, from, to).unwrap();
            renews(&format!("{key} has moved")).await;
            assert!(!waiting.is_finished());
        }
        cluster.end_to_move(slot, from, to).unwrap();
        renews("the slot has moved").await;
        granted(&mut fresh).await;
        fresh.release().await.unwrap();
        // It looks, is led to the other member, and listens there.
        busy(&mut listener).await;
        let token = guard.token();
        assert_eq!(guard.release().await, Ending::Released);
        within("a listener is told", SOON, listener.changed()).await;
        let next = within("the waiter has it", SOON * 2, waiting).await.unwrap();
        assert!(next.token() > token);
        assert_eq!(next.release().await, Ending::Released);
    });
}

pub(crate) fn a_replica_takes_a_killed_primarys_place() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let lock = "n";
        let slot = slot(lock);
        let primary = cluster.primary_of(slot, 0).unwrap();
        let (ttl, other) = (Duration::from_secs(20), (primary + 1) % 3);
        let guard = a.lock(lock).ttl(ttl).build().unwrap().acquire().await.unwrap();
        let waits = b.lock(lock).ttl(ttl).build().unwrap();
        let waiting = tokio::spawn(async move { waits.acquire().await.unwrap() });
        let mut asked = raw_at(cluster.members()[primary].url()).await;
        until("the waiter listens", async || listeners(&mut asked).await == 1).await;
        // The grant is on the replica.
        until("it has the keys", async || {
            cluster.keys_of(slot, primary + 3).is_ok_and(|keys| keys.len() == 2)
        })
        .await;
        let killed = Instant::now();
        cluster.members()[primary].kill().unwrap();
        until("another member has the slot", async || {
            cluster.primary_of(slot, other).is_ok_and(|member| member != primary)
        })
        .await;
        println!("a replica has the slot after {:?}", killed.elapsed());
        until("the lock is renewed there", async || guard.renew(ttl).await.is_ok()).await;
        println!("the lock was renewed after {:?}", killed.elapsed());
        let token: FencingToken = guard.token();
        assert_eq!(guard.release().await, Ending::Released);
        let released = Instant::now();
        let next = within("the waiter has it", SOON * 2, waiting).await.unwrap();
        let waited = released.elapsed();
        println!("the waiter had it {waited:?} after the release");
        assert_in_time!(waited < SLOTS_ARE_READ, "it learns of the new member by itself");
        assert!(next.token() > token);
        assert_eq!(next.release().await, Ending::Released);
        // The old primary comes back as a replica, and refuses what it is asked.
        cluster.members()[primary].restart(Data::Kept).unwrap();
        until("it is a member again", async || {
            cluster.primary_of(slot, primary).is_ok_and(|member| member != primary)
        })
        .await;
        granted(&mut claim(&a, lock, 1_000)).await;
    });
}

/// The core releases what an attempt may have taken when one patience is over, counted from the attempt's start.
pub(crate) fn a_redirected_attempt_has_one_patience_for_all_members() {
    run(async {
        let cluster = start();
        let own = |member: usize| {
            let mut names = (0..1000).map(|nth| format!("n{nth}"));
            names.find(|name| cluster.primary_of(slot(name), 0).unwrap() == member).unwrap()
        };
        let (asked, leads_to) = (&cluster.members()[1], &cluster.members()[2]);
        let url = format!("redis+cluster://{}?lazy=true&patience=400ms", asked.address());
        let client = lock_redis::connect(&url).await.unwrap();
        let lock = own(2);
        let mut claim = claim_with(&client, &lock, 20_000, Duration::from_millis(400));
        // The first member says where the lock is when most of the patience is over; the other one says
        // nothing. That is too short for the cluster to take it for dead.
        let admin = redis::Client::open(asked.url()).unwrap();
        let mut admin = admin.get_multiplexed_async_connection().await.unwrap();
        let () = redis::cmd("CLIENT").arg("PAUSE").arg(300).query_async(&mut admin).await.unwrap();
        leads_to.pause().unwrap();
        let began = Instant::now();
        let error = claim.attempt().await.unwrap_err();
        let took = began.elapsed();
        leads_to.resume().unwrap();
        assert!(error.is_transient() && !error.to_string().contains("CLUSTERDOWN"), "{error}");
        assert_in_time!(took < Duration::from_millis(600), "one patience of 400 ms, not two: {took:?}");
    });
}

pub(crate) fn a_dead_named_member_costs_part_of_the_patience() {
    run(async {
        let cluster = start();
        let dead = cluster.members()[1].address();
        let alive = cluster.members()[0].address();
        cluster.members()[1].kill().unwrap();
        let slot = (0..100)
            .map(|nth| format!("n{nth}"))
            .find(|name| cluster.primary_of(slot(name), 0).unwrap() == 0);
        let url = format!("redis+cluster://{dead},{alive}?patience=2s");
        let began = Instant::now();
        let client = lock_redis::connect(&url).await.unwrap();
        assert_in_time!(began.elapsed() < Duration::from_secs(2), "the dead one took all");
        assert!(matches!(
            claim(&client, &slot.unwrap(), 20_000).attempt().await.unwrap(),
            Attempt::Granted(_)
        ));
    });
}
