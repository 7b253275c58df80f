//! Redis Sentinel: the primary is the one that the sentinels name and that says so itself; after a failover, requests
//! and wake-ups go to its successor.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::timing::{released, within};
use lock_core::driver::Level;
use lock_core::{Client, Effect, ErrorKind, Lock};
use lock_redis::{FencedWrite, WriteError};
use lock_test_servers::{Owned, RedisReplicas, RedisSentinel, RedisSentinels, SentinelSettings, Settings};
use tokio::sync::mpsc;

use crate::copies::{listeners, raw, replicas};
use crate::server::{claim, claim_with, granted, raw_at, run, try_raw_at, until};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };
/// Well below the three seconds after which a waiter looks without any wake-up.
const WOKEN: Duration = Duration::from_millis(1500);
/// Longer than a failover takes: the sentinels notice, agree, elect one of them, and that one promotes a replica.
const FAILOVER: Duration = Duration::from_secs(15);

fn watched(servers: &RedisReplicas) -> RedisSentinels {
    RedisSentinels::watch(servers, &SentinelSettings::default()).expect("Redis was started before")
}

async fn client(sentinels: &RedisSentinels) -> Client {
    lock_redis::connect(&sentinels.url("")).await.expect("there is a primary")
}

/// Starts one sentinel that knows no other, and takes the server at this port for the primary.
fn sentinel_of(port: u16) -> Owned {
    let name = RedisSentinels::SERVICE;
    let lines = [
        format!("sentinel monitor {name} 127.0.0.1 {port} 2"),
        format!("sentinel down-after-milliseconds {name} 60000"),
    ];
    let settings = Settings { args: lines.into(), ..Settings::default() };
    Owned::start(&RedisSentinel, &settings).expect("Redis was started before")
}

fn url_of(sentinels: &[&Owned]) -> String {
    let hosts: Vec<String> = sentinels.iter().map(|sentinel| sentinel.address()).collect();
    format!("redis+sentinel://{}/{}", hosts.join(","), RedisSentinels::SERVICE)
}

fn lock(client: &Client, name: &str, ttl: Duration) -> Lock {
    client.lock(name).ttl(ttl).wait(Duration::from_secs(20)).build().unwrap()
}

/// Waits until a replica of the first server has been promoted, and returns which one.
async fn promoted(servers: &RedisReplicas) -> usize {
    within("a replica is promoted", FAILOVER, async {
        loop {
            for server in [1, 2] {
                if is_primary(servers, server).await.unwrap_or(false) {
                    return server;
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// On a connection of its own: the sentinels cut those to a server that they promote or demote.
pub(crate) async fn is_primary(servers: &RedisReplicas, server: usize) -> redis::RedisResult<bool> {
    let mut raw = try_raw_at(servers.servers()[server].url()).await?;
    let info: String = raw.try_ask(&["INFO", "replication"]).await?;
    Ok(info.contains("role:master"))
}

// Proves: another-server
pub(crate) fn a_sentinel_is_not_believed_before_the_server() {
    run(async {
        let servers = replicas(&["--replica-read-only", "no"]);
        let port = |server: usize| servers.servers()[server].port();
        let (stale, dead, right) = (sentinel_of(port(1)), sentinel_of(1), sentinel_of(port(0)));
        for (sentinel, how) in [(&stale, "is a replica"), (&dead, "127.0.0.1:1")] {
            let began = Instant::now();
            let error = lock_redis::connect(&url_of(&[sentinel])).await.unwrap_err();
            assert_eq!(error.kind(), NOT_DONE, "{error}");
            assert!(
                error.message().contains(how) && error.message().contains(&sentinel.address()),
                "{error}"
            );
            assert_in_time!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
        }
        let client = lock_redis::connect(&url_of(&[&stale, &dead, &right])).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        assert_eq!(raw(&servers, 0).await.ask::<u32>(&["EXISTS", "a"]).await, 1);
        let findings = client.check().await.unwrap();
        let told = findings.iter().find(|finding| finding.subject == "sentinels").expect("they were asked");
        assert!(told.level == Level::Warning && told.message.contains("different"), "{told:?}");
    });
}

pub(crate) fn a_name_unknown_to_sentinels_is_a_clear_error() {
    run(async {
        let servers = replicas(&[]);
        let one = sentinel_of(servers.servers()[0].port());
        let url = url_of(&[&one]).replace(RedisSentinels::SERVICE, "another");
        let error = lock_redis::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(
            error.message().contains("\"another\"") && error.message().contains(&one.address()),
            "{error}"
        );
        // A sentinel is no server, and a server is no sentinel.
        let error = lock_redis::connect(&format!("redis://{}", one.address())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.message().contains("is a sentinel"), "{error}");
        let error = lock_redis::connect(&url_of(&[&servers.servers()[0]])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.message().contains("is no sentinel"), "{error}");
    });
}

pub(crate) fn both_sides_have_a_password_and_neither_is_shown() {
    run(async {
        let servers = replicas(&["--requirepass", "hunter2"]);
        let settings =
            SentinelSettings { password: Some("watchw0rd".to_owned()), ..SentinelSettings::default() };
        let sentinels = RedisSentinels::watch(&servers, &settings).expect("Redis was started before");
        let right = sentinels.url(":hunter2@");
        let client = lock_redis::connect(&right).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        let mut waiter = claim(&client, "b", 20_000);
        waiter.listen().await.unwrap();
        let shown = format!("{client:?} {:?} {:?}", client.driver(), client.info());
        assert!(!shown.contains("hunter") && !shown.contains("watchw"), "{shown}");
        let findings = client.check().await.unwrap();
        let told = findings.iter().find(|finding| finding.subject == "sentinels").expect("they were asked");
        assert_eq!(told.level, Level::Good, "{told:?}");
        for (wrong, named) in [
            (right.split('?').next().unwrap().to_owned(), "sentinel_password"),
            (right.replace("watchw0rd", "watchw1"), "sentinel_password"),
            (right.replace("hunter2", "hunter3"), "redis://user:password@host"),
            (right.replace(":hunter2@", ""), "redis://user:password@host"),
        ] {
            let error = lock_redis::connect(&wrong).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.message().contains(named), "{named}: {error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter") && !shown.contains("watchw"), "{shown}");
        }
    });
}

pub(crate) fn a_user_of_the_sentinels_needs_few_rights() {
    run(async {
        let servers = replicas(&[]);
        let one = sentinel_of(servers.servers()[0].port());
        let mut admin = raw_at(&format!("redis://{}", one.address())).await;
        let rights =
            ["+sentinel|get-master-addr-by-name", "+subscribe", "&+switch-master", "&+promoted-slave"];
        let user = ["ACL", "SETUSER", "watch", "on", ">w0rd", "-@all", "resetchannels"];
        let _: () = admin.ask(&[&user[..], &rights].concat()).await;
        let url = format!("{}?sentinel_user=watch&sentinel_password=w0rd", url_of(&[&one]));
        let client = lock_redis::connect(&url).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        let mut waiter = claim(&client, "a", 20_000);
        waiter.listen().await.unwrap();
        let connections: String = admin.ask(&["CLIENT", "LIST"]).await;
        let listens = |line: &str| line.contains("user=watch ") && line.contains(" sub=2 ");
        assert!(connections.lines().any(listens), "{connections}");
    });
}

// Proves: network-dead
pub(crate) fn without_sentinels_errors_are_prompt_and_open_clients_continue() {
    run(async {
        let servers = replicas(&[]);
        let one = sentinel_of(servers.servers()[0].port());
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url_of(&[&one]).replace("//", &format!("//{},", silent.local_addr().unwrap()));
        let client = lock_redis::connect(&url).await.unwrap();
        let mut waiter = claim(&client, "a", 20_000);
        waiter.listen().await.unwrap();
        one.kill().unwrap();
        granted(&mut claim(&client, "b", 20_000)).await;
        within("it listens on", WOKEN, waiter.listen()).await.unwrap();
        let began = Instant::now();
        let url = format!("{url}?patience=600ms");
        let error = lock_redis::connect(&url).await.unwrap_err();
        assert_in_time!(began.elapsed() < Duration::from_millis(900), "it took {:?}", began.elapsed());
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains(&one.address()), "{error}");
    });
}

/// Waits until the first of the sentinels names a server with another port.
async fn sentinels_tell_of_another(sentinels: &RedisSentinels, port: u16) {
    let mut raws = Vec::new();
    for sentinel in sentinels.members() {
        raws.push(raw_at(&format!("redis://{}", sentinel.address())).await);
    }
    let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisSentinels::SERVICE];
    within("a sentinel tells of it", FAILOVER, async {
        loop {
            for raw in &mut raws {
                let (_, named): (String, u16) = raw.ask(&question).await;
                if named != port {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// The ttl of the lock under load.
const TTL: Duration = Duration::from_secs(1);

/// A client that contends until it is told to stop, and reports each grant.
async fn contend(lock: Lock, grants: mpsc::UnboundedSender<(u64, Instant)>, stopped: Arc<AtomicBool>) {
    while !stopped.load(Ordering::Relaxed) {
        let Ok(guard) = lock.acquire().await else { continue };
        let _: Result<(), _> = grants.send((guard.token().get(), Instant::now()));
        tokio::time::sleep(Duration::from_millis(2)).await;
        guard.release().await;
    }
}

// Proves: redis-failover, replica-promoted
pub(crate) fn all_clients_meet_a_killed_primarys_successor() {
    run(async {
        let servers = replicas(&[]);
        let sentinels = watched(&servers);
        let (report, mut grants) = mpsc::unbounded_channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let client = client(&sentinels).await;
            for _ in 0..2 {
                let lock = lock(&client, "loaded", TTL);
                tasks.push(tokio::spawn(contend(lock, report.clone(), stopped.clone())));
            }
        }
        for _ in 0..50 {
            grants.recv().await.expect("they contend");
        }
        let killed = Instant::now();
        servers.servers()[0].kill().unwrap();
        promoted(&servers).await;
        let promoted = Instant::now();
        sentinels_tell_of_another(&sentinels, servers.servers()[0].port()).await;
        let told = Instant::now();
        let (mut tokens, mut first) = (HashSet::new(), None);
        let mut after = 0;
        while after < 50 {
            let (token, at) = within("a grant", FAILOVER, grants.recv()).await.expect("they contend");
            assert!(tokens.insert(token), "{token} was granted twice");
            if at > promoted {
                first.get_or_insert(at);
                after += 1;
            }
        }
        let first = first.expect("there was one");
        eprintln!(
            "a primary was killed (down-after is {:?}): a replica was promoted after {:?}, a sentinel told of it after \
             {:?}, and the first grant came after {:?}",
            SentinelSettings::default().down_after,
            promoted - killed,
            told - killed,
            first - killed,
        );
        // The lock that was held when the primary died ends with its ttl.
        let due = told.max(killed + TTL) + Duration::from_millis(600);
        assert_in_time!(first < due, "the first grant came after {:?}", first - killed);
        stopped.store(true, Ordering::Relaxed);
        for task in tasks {
            within("it ends", FAILOVER, task).await.unwrap();
        }
    });
}

// Proves: replica-promoted
pub(crate) fn a_stalled_primarys_successor_wakes_its_waiter() {
    run(async {
        let servers = replicas(&[]);
        let sentinels = watched(&servers);
        let (holders, waiters) = (client(&sentinels).await, client(&sentinels).await);
        let ttl = Duration::from_secs(20);
        let guard = lock(&holders, "a", ttl).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let lock = lock(&waiters, "a", ttl);
            async move { lock.acquire().await }
        });
        let mut first = raw(&servers, 0).await;
        until("it waits", async || listeners(&mut first, "a").await == 1).await;
        servers.catch_up().unwrap();
        // Also if the waiter's look is under way at this moment.
        servers.servers()[0].pause().unwrap();
        let successor = promoted(&servers).await;
        let mut successor = raw(&servers, successor).await;
        let promoted = Instant::now();
        until("it listens to the successor", async || listeners(&mut successor, "a").await == 1).await;
        assert_in_time!(promoted.elapsed() < WOKEN, "no silence had to be noticed: {:?}", promoted.elapsed());
        let asked = Instant::now();
        released(guard).await;
        let next = within("the waiter has it", FAILOVER, waiting).await.unwrap().unwrap();
        assert_in_time!(asked.elapsed() < WOKEN, "it was woken, and did not wait for a look");
        released(next).await;
        servers.servers()[0].resume().unwrap();
    });
}

pub(crate) fn a_failover_ends_calls_on_a_stalled_primary() {
    run(async {
        let servers = replicas(&[]);
        let sentinels = watched(&servers);
        let client = client(&sentinels).await;
        let mut waiter = claim(&client, "a", 20_000);
        waiter.listen().await.unwrap();
        let mut hopeless = claim_with(&client, "b", 20_000, Duration::from_secs(25));
        granted(&mut hopeless).await;
        servers.catch_up().unwrap();
        servers.servers()[0].pause().unwrap();
        let asking = tokio::spawn(async move { (hopeless.renew(Duration::from_secs(20)).await, hopeless) });
        promoted(&servers).await;
        sentinels_tell_of_another(&sentinels, servers.servers()[0].port()).await;
        let told = Instant::now();
        let (answer, mut hopeless) = within("it ends", FAILOVER, asking).await.unwrap();
        assert_in_time!(told.elapsed() < WOKEN, "it ended after {:?}", told.elapsed());
        let error = answer.unwrap_err();
        assert!(error.is_transient() && error.may_have_taken_effect(), "{error:?}");
        hopeless.renew(Duration::from_secs(20)).await.unwrap();
        servers.servers()[0].resume().unwrap();
    });
}

// Proves: redis-failover, replica-promoted
pub(crate) fn the_resource_refuses_a_cut_off_primarys_holder() {
    run(async {
        let servers = replicas(&[]);
        let sentinels = watched(&servers);
        let ttl = Duration::from_millis(1500);
        // This client knows only the first server.
        let alone = lock_redis::connect(servers.servers()[0].url()).await.unwrap();
        let stale = lock(&alone, "report", ttl).acquire().await.unwrap();
        let client = client(&sentinels).await;
        servers.catch_up().unwrap();
        servers.servers()[0].pause().unwrap();
        let cut = Instant::now();
        let waiting = tokio::spawn({
            let lock = lock(&client, "report", ttl);
            async move { lock.acquire().await.map(|guard| (guard, Instant::now())) }
        });
        let after = promoted(&servers).await;
        let promoted = Instant::now();
        let (next, at) = within("it is granted", FAILOVER, waiting).await.unwrap().unwrap();
        assert!(next.token() > stale.token(), "{} after {}", next.token(), stale.token());
        let waited = at - cut;
        assert_in_time!(at < promoted.max(cut + ttl) + WOKEN, "it was granted after {waited:?}");
        let mut resource = raw(&servers, after).await;
        let report = FencedWrite::new("report-data");
        report.set(&mut resource.0, next.token(), "new").await.unwrap();
        let refused = report.set(&mut resource.0, stale.token(), "stale").await.unwrap_err();
        assert!(matches!(refused, WriteError::Stale(_)), "{refused}");
        let written: String = resource.ask(&["GET", "report-data"]).await;
        assert_eq!(written, "new");
        eprintln!(
            "a primary stood still: the lock of its holder was granted after {waited:?} (its ttl is {ttl:?})"
        );
        within("the holder knows", ttl, stale.lost()).await;
        released(next).await;
        servers.servers()[0].resume().unwrap();
        // It is a replica soon, and its clients are sent away. Until then it takes writes.
        servers.become_whole().unwrap();
        assert_eq!(raw(&servers, 0).await.info("replication", "role").await, "slave");
    });
}

// Proves: elections
pub(crate) fn a_failover_by_command_loses_nothing() {
    run(async {
        let servers = replicas(&[]);
        let sentinels = watched(&servers);
        let client = client(&sentinels).await;
        let guard = lock(&client, "a", Duration::from_secs(2)).acquire().await.unwrap();
        let identity = client.info().identity.clone();
        servers.catch_up().unwrap();
        let mut admin = raw_at(&format!("redis://{}", sentinels.members()[0].address())).await;
        let _: () = admin.ask(&["SENTINEL", "FAILOVER", RedisSentinels::SERVICE]).await;
        promoted(&servers).await;
        until("the client has met it", async || client.info().identity != identity).await;
        until("it is renewed there", async || guard.valid_for() > Duration::from_millis(1300)).await;
        lock_conformance::timing::still_held(&guard);
        released(guard).await;
    });
}
