//! A list of hosts: the client finds the primary, leaves it when another server takes its place, and never writes to a
//! replica.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::timing::{released, within};
use lock_core::{Client, Effect, ErrorKind, Level};
use lock_redis::Redis;
use lock_test_servers::{RedisReplicas, Settings, catalogue};

use crate::server::{Raw, claim, claim_with, granted, raw_at, run, until};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };
/// Well below the three seconds after which a waiter looks without any wake-up.
const WOKEN: Duration = Duration::from_millis(1500);

/// Starts a primary, which is server 0, and two replicas.
pub(crate) fn replicas(arguments: &[&str]) -> RedisReplicas {
    let args = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let settings =
        Settings { persistence: lock_test_servers::Persistence::None, args, ..Settings::default() };
    RedisReplicas::start(&settings).unwrap_or_else(|e| panic!("{}: {e:?}", catalogue::REDIS.name))
}

/// Returns the URL of these servers in this order.
fn url(servers: &RedisReplicas, order: &[usize]) -> String {
    let hosts: Vec<String> = order.iter().map(|server| servers.servers()[*server].address()).collect();
    format!("redis://{}", hosts.join(","))
}

async fn client(servers: &RedisReplicas, order: &[usize]) -> Client {
    lock_redis::connect(&url(servers, order)).await.expect("the primary is there")
}

pub(crate) async fn raw(servers: &RedisReplicas, server: usize) -> Raw {
    raw_at(servers.servers()[server].url()).await
}

/// Returns how many connections have subscribed to the channel of the name's releases.
pub(crate) async fn listeners(raw: &mut Raw, name: &str) -> usize {
    let channels: Vec<String> = raw.ask(&["PUBSUB", "CHANNELS", &format!("{name}*:lock~w")]).await;
    channels.len()
}

pub(crate) fn the_primary_is_found_wherever_it_stands() {
    run(async {
        let servers = replicas(&[]);
        let mut raw = raw(&servers, 0).await;
        let mut identities = Vec::new();
        for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
            let client = client(&servers, &order).await;
            granted(&mut claim(&client, &format!("lock-{order:?}"), 20_000)).await;
            assert_eq!(raw.ask::<u32>(&["EXISTS", &format!("lock-{order:?}")]).await, 1);
            let info = client.info();
            assert!(info.data_loss.contains("a failover loses"), "{}", info.data_loss);
            assert_eq!(info.server, url(&servers, &order).replace("redis://", "").replace(',', ", "));
            identities.push(info.identity.clone().expect("it says which server it is"));
        }
        identities.dedup();
        assert_eq!(identities.len(), 1, "it is one server in any list: {identities:?}");
    });
}

// Proves: redis-failover, another-server
pub(crate) fn no_replica_is_written_to() {
    run(async {
        let servers = replicas(&["--replica-read-only", "no"]);
        let client = client(&servers, &[1, 0, 2]).await;
        let mut claim = claim(&client, "a", 20_000);
        granted(&mut claim).await;
        claim.release().await.unwrap();
        servers.catch_up().unwrap();
        let mut replicas = [raw(&servers, 1).await, raw(&servers, 2).await];
        let mut before = Vec::new();
        for replica in &mut replicas {
            before.push(replica.keys().await);
        }
        servers.servers()[0].kill().unwrap();
        // The connection broke, and the attempt may have been on it.
        _ = claim.attempt().await.unwrap_err();
        for _ in 0..3 {
            let error = claim.attempt().await.unwrap_err();
            assert_eq!(error.kind(), NOT_DONE, "{error}");
            for server in servers.servers() {
                assert!(error.message().contains(&server.address()), "{error}");
            }
            assert!(error.message().contains("is a replica"), "{error}");
        }
        for (replica, before) in replicas.iter_mut().zip(before) {
            assert_eq!(replica.keys().await, before, "nothing is written to a replica");
        }
    });
}

// Proves: replica-promoted
pub(crate) fn clients_meet_a_killed_primarys_successor_and_waiters_wake() {
    run(async {
        let servers = replicas(&[]);
        let (holders, waiters) = (client(&servers, &[0, 1, 2]).await, client(&servers, &[2, 0, 1]).await);
        let lock = |client: &Client| {
            client.lock("a").ttl(Duration::from_secs(20)).wait(Duration::from_secs(20)).build().unwrap()
        };
        let guard = lock(&holders).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let lock = lock(&waiters);
            async move { lock.acquire().await }
        });
        let mut first = raw(&servers, 0).await;
        until("it waits", async || listeners(&mut first, "a").await == 1).await;
        servers.catch_up().unwrap();
        servers.servers()[0].kill().unwrap();
        servers.promote(1).unwrap();
        let mut second = raw(&servers, 1).await;
        until("it listens to the successor", async || listeners(&mut second, "a").await == 1).await;
        let asked = Instant::now();
        released(guard).await;
        let next = within("the waiter has it", Duration::from_secs(20), waiting).await.unwrap().unwrap();
        assert_in_time!(asked.elapsed() < WOKEN, "it was woken, and did not wait for a look");
        released(next).await;
    });
}

// Proves: another-server
pub(crate) fn clients_and_wake_ups_leave_a_demoted_primary() {
    run(async {
        let servers = replicas(&[]);
        let client = client(&servers, &[0, 1, 2]).await;
        let (mut holder, mut waiter) = (claim(&client, "a", 20_000), claim(&client, "a", 20_000));
        granted(&mut holder).await;
        waiter.listen().await.unwrap();
        servers.catch_up().unwrap();
        servers.promote(1).unwrap();
        // By hand, which cuts no connection. It follows a server that is not there, so that it passes no message on.
        let _: () = raw(&servers, 0).await.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
        assert_eq!(holder.renew(Duration::from_secs(20)).await.unwrap_err().kind(), NOT_DONE);
        holder.renew(Duration::from_secs(20)).await.unwrap();
        let mut second = raw(&servers, 1).await;
        let left = Instant::now();
        until("it listens to the successor", async || listeners(&mut second, "a").await == 1).await;
        assert_in_time!(left.elapsed() < Duration::from_secs(3), "before the connection is checked");
        holder.release().await.unwrap();
        within("the waiter is woken", WOKEN, waiter.changed()).await;
        granted(&mut waiter).await;
    });
}

/// The requests of this client do not show it: it only waits.
pub(crate) fn a_client_that_only_listens_leaves_a_demoted_primary() {
    run(async {
        let servers = replicas(&[]);
        let client = client(&servers, &[0, 1, 2]).await;
        let mut waiter = claim(&client, "a", 20_000);
        waiter.listen().await.unwrap();
        servers.promote(1).unwrap();
        servers.demote(0, 1).unwrap();
        let mut second = raw(&servers, 1).await;
        until("it listens to the successor", async || listeners(&mut second, "a").await == 1).await;
        within("the waiter is woken", Duration::from_secs(1), waiter.changed()).await;
    });
}

// Proves: replica-promoted
/// A search that began before the promotion, and waits for the silent primary, finds the successor.
pub(crate) fn clients_leave_a_stalled_primary_for_its_replica() {
    run(async {
        let servers = replicas(&[]);
        let client = client(&servers, &[0, 1, 2]).await;
        let mut claim = claim_with(&client, "a", 20_000, Duration::from_millis(300));
        granted(&mut claim).await;
        claim.release().await.unwrap();
        servers.servers()[0].pause().unwrap();
        for _ in 0..2 {
            assert!(claim.attempt().await.unwrap_err().is_transient());
        }
        servers.promote(1).unwrap();
        let promoted = Instant::now();
        until("it is granted there", async || claim.attempt().await.is_ok()).await;
        assert_in_time!(promoted.elapsed() < WOKEN, "it was granted after {:?}", promoted.elapsed());
        servers.servers()[0].resume().unwrap();
    });
}

// Proves: network-dead
pub(crate) fn a_silent_host_costs_a_part_of_the_patience() {
    run(async {
        let servers = replicas(&[]);
        // The system accepts connections to it, and no program answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = silent.local_addr().unwrap();
        let primary = servers.servers()[0].address();
        let began = Instant::now();
        let url = format!("redis://{silent},{silent},{primary}?patience=1200ms");
        let client = lock_redis::connect(&url).await.unwrap();
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300), "each host has a head start: {took:?}");
        assert_in_time!(took < Duration::from_millis(800), "it took {took:?}");
        granted(&mut claim(&client, "a", 20_000)).await;

        let replica = servers.servers()[1].address();
        let began = Instant::now();
        let url = format!("redis://{silent},{replica}?patience=400ms");
        let error = lock_redis::connect(&url).await.unwrap_err();
        let took = began.elapsed();
        assert_in_time!(took < Duration::from_millis(600), "it took {took:?}");
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        let told = error.message();
        assert!(told.contains(&format!("{silent}: no answer")) && told.contains(&replica), "{told}");
    });
}

pub(crate) fn what_all_hosts_refuse_is_rejected_without_a_password() {
    run(async {
        let servers = replicas(&["--requirepass", "hunter2"]);
        let client = lock_redis::connect(&servers.url()).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        assert!(!format!("{client:?} {:?} {:?}", client.driver(), client.info()).contains("hunter"));
        let error = lock_redis::connect(&servers.url().replace("hunter2", "hunter3")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        for server in servers.servers() {
            assert!(error.message().contains(&server.address()), "{error}");
        }
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        // One that is down may be the primary, but the others would not let this client in either.
        servers.servers()[0].kill().unwrap();
        let error = lock_redis::connect(&servers.url().replace("hunter2", "hunter3")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        // Here, one of the others may be promoted at any moment, even if the third would refuse.
        let mut third = raw_at(&servers.servers()[2].url().replace("//", "//:hunter2@")).await;
        let _: () = third.ask(&["CONFIG", "SET", "requirepass", "hunter4"]).await;
        let error = lock_redis::connect(&servers.url()).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
    });
}

pub(crate) fn a_user_without_info_still_learns_the_role() {
    run(async {
        let servers = replicas(&[]);
        for server in 0..3 {
            let set = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-info", "-config", "-role"];
            let _: () = raw(&servers, server).await.ask(&set).await;
        }
        let url = url(&servers, &[2, 1, 0]).replace("redis://", "redis://u:p@");
        let client = lock_redis::connect(&url).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        assert_eq!(raw(&servers, 0).await.ask::<u32>(&["EXISTS", "a"]).await, 1);
    });
}

pub(crate) fn hosts_that_are_two_primaries_are_found_by_check() {
    run(async {
        let servers = replicas(&[]);
        let client = client(&servers, &[1, 0, 2]).await;
        let hosts = async || {
            let findings = client.check().await.unwrap();
            findings.into_iter().find(|finding| finding.subject == "hosts").expect("they were asked")
        };
        let good = hosts().await;
        let primary = servers.servers()[0].address();
        assert_eq!((good.level, good.message.starts_with(&primary)), (Level::Good, true), "{good:?}");
        let mut second = raw(&servers, 1).await;
        second.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await;
        let bad = hosts().await;
        assert_eq!(bad.level, Level::Bad, "{bad:?}");
        for told in [primary, servers.servers()[1].address(), "redlock://".to_owned()] {
            assert!(bad.message.contains(&told), "{bad:?}");
        }
    });
}

pub(crate) fn a_list_is_no_node_of_redlock() {
    let redis = Redis::from_url("redis://a,b").unwrap();
    let context =
        lock_core::driver::Context::new(lock_core::Clock::system(), lock_core::Random::system(), WOKEN);
    let error = lock_redis::node::Node::new(redis, context, std::sync::Arc::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
