//! Faults while a lock is held and waited for: of the disk, the memory, the connections, the rights, and by an
//! administrator. Each is reported as what it is, never as contention; the holder learns of a loss in time; nothing is
//! left on the server afterwards.

use std::time::{Duration, Instant};

use lock_conformance::proxy::{Direction, Proxy};
use lock_conformance::timing::{released, still_held, within};
use lock_core::{Client, Effect, Ending, ErrorKind, Fence, Guard, Lock, LossReason};

use crate::access::restricted;
use crate::server::{Raw, Server, claim, granted, run, until};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };
const TTL: Duration = Duration::from_millis(600);

fn lock(client: &Client, name: &str) -> Lock {
    client.lock(name).ttl(TTL).build().unwrap()
}

async fn hold(client: &Client, name: &str) -> Guard {
    lock(client, name).try_acquire().await.unwrap().expect("it is free")
}

/// Asserts that the lock is lost at the guard's deadline and not before, and that the guard's release is too late.
async fn is_lost_in_time(guard: Guard) {
    let asked = Instant::now();
    let left = guard.valid_for();
    let cause = within("the loss is told", left + Duration::from_millis(150), guard.lost()).await;
    assert_eq!(cause, LossReason::Expired);
    assert!(asked.elapsed() >= left && !guard.is_held());
    assert_eq!(guard.release().await, Ending::Expired);
}

/// Asserts that the guard stays held for longer than its lease.
async fn stays_held(guard: &Guard) {
    let end = Instant::now() + TTL * 2;
    while Instant::now() < end {
        still_held(guard);
        tokio::time::sleep(TTL / 20).await;
    }
}

/// Makes snapshots fail: the server keeps its data, and takes no more writes.
async fn fails_to_save(raw: &mut Raw, folder: &std::path::Path) {
    let gone = folder.join("gone");
    std::fs::create_dir(&gone).unwrap();
    let _: () = raw.ask(&["CONFIG", "SET", "dir", gone.to_str().unwrap()]).await;
    std::fs::remove_dir(&gone).unwrap();
    save(raw, "err").await;
}

async fn save(raw: &mut Raw, status: &str) {
    let _: String = raw.ask(&["BGSAVE"]).await;
    until("it has tried", async || {
        raw.info("persistence", "rdb_bgsave_in_progress").await == "0"
            && raw.info("persistence", "rdb_last_bgsave_status").await == status
    })
    .await;
}

// Proves: disk-full
pub(crate) fn an_unwritable_server_grants_nothing_and_its_holders_learn() {
    run(async {
        let server = Server::start(&["--save", "3600 1", "--enable-protected-configs", "yes"]);
        let mut raw = server.raw().await;
        let (client, other) = (server.client("").await, server.client("").await);
        let guard = hold(&client, "held").await;
        let waiter = lock(&other, "held");
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        fails_to_save(&mut raw, server.folder()).await;
        // A look at a held lock writes nothing.
        assert!(lock(&other, "held").try_acquire().await.unwrap().is_none());
        let error = lock(&other, "free").try_acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains("disk"), "{error}");
        let error = guard.renew(TTL).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        let token = guard.token();
        is_lost_in_time(guard).await;
        assert!(!waiter.is_finished(), "a waiter goes on waiting when the server is in trouble");
        let _: () = raw.ask(&["CONFIG", "SET", "dir", server.folder().to_str().unwrap()]).await;
        save(&mut raw, "ok").await;
        let next = within("the waiter has the lock", Duration::from_secs(6), waiter).await.unwrap().unwrap();
        assert!(next.token() > token);
        released(next).await;
    });
}

// Proves: no-memory
pub(crate) fn a_server_without_memory_keeps_and_frees_locks() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let (client, other) = (server.client("").await, server.client("").await);
        let guard = hold(&client, "held").await;
        let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        stays_held(&guard).await;
        let error = lock(&other, "free").try_acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        released(guard).await;
        assert_eq!(raw.ask::<u32>(&["EXISTS", "held"]).await, 0);
        let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
        released(hold(&other, "held").await).await;
    });
}

// Proves: no-connection
pub(crate) fn a_full_server_refuses_only_new_clients() {
    run(async {
        let server = Server::start(&["--maxclients", "8"]);
        let client = server.client("").await;
        let guard = hold(&client, "held").await;
        let mut others = Vec::new();
        while let Ok(raw) = server.try_raw().await {
            others.push(raw);
        }
        assert!(!others.is_empty(), "some connections are open before the server is full");
        let error = lock_redis::connect(&server.url("")).await.map(drop).unwrap_err();
        // The server gives the reason when it closes the connection, and a client may miss it.
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        stays_held(&guard).await;
        released(guard).await;
        drop(others);
        until("there is room again", async || lock_redis::connect(&server.url("")).await.is_ok()).await;
    });
}

// Proves: rights-revoked
pub(crate) fn a_holder_that_loses_its_rights_knows_in_time() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = restricted(&server, &mut raw, &["~*", "&*", "+@all"]).await;
        for given_back in [true, false] {
            let guard = hold(&client, "held").await;
            // This ends the user's connections, too.
            assert_eq!(raw.ask::<u32>(&["ACL", "DELUSER", "u"]).await, 1);
            // The connection that was cut may cost one call.
            let error = match lock(&client, "free").try_acquire().await.map(drop).unwrap_err() {
                cut if cut.is_transient() => lock(&client, "free").try_acquire().await.map(drop).unwrap_err(),
                refused => refused,
            };
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.message().contains("password"), "{error}");
            if given_back {
                let _other = restricted(&server, &mut raw, &["~*", "&*", "+@all"]).await;
                stays_held(&guard).await;
                released(guard).await;
            } else {
                is_lost_in_time(guard).await;
            }
        }
        until("its ttl frees it", async || raw.ask::<u32>(&["EXISTS", "held"]).await == 0).await;
    });
}

// Proves: expiry-removed
pub(crate) fn a_lock_stripped_of_its_expiry_regains_one() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let guard = hold(&client, "held").await;
        let persisted = raw.ask::<u32>(&["PERSIST", "held"]).await;
        still_held(&guard);
        assert_eq!(persisted, 1);
        until("the next renewal gives it one", async || raw.ask::<i64>(&["PTTL", "held"]).await > 0).await;
        stays_held(&guard).await;
        released(guard).await;
    });
}

pub(crate) fn a_look_restores_an_expiry_that_was_removed() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        // A look keeps the lock for at least a millisecond. For a lock without expiry, that would be its whole lease.
        let look = Duration::from_millis(1);
        let mut claim = claim(&client, "claimed", 20_000);
        granted(&mut claim).await;
        for (renewed, least) in [(20_000, 15_000), (60_000, 50_000)] {
            claim.renew(Duration::from_millis(renewed)).await.unwrap();
            assert_eq!(raw.ask::<u32>(&["PERSIST", "claimed"]).await, 1);
            claim.renew(look).await.unwrap();
            assert!(raw.ask::<i64>(&["PTTL", "claimed"]).await > least, "what its holder relies on");
        }

        let lock = client.lock("held").ttl(Duration::from_secs(20)).fixed_lease().build().unwrap();
        let guard = lock.try_acquire().await.unwrap().expect("it is free");
        assert_eq!(raw.ask::<u32>(&["PERSIST", "held"]).await, 1);
        until("its holder has looked", async || raw.ask::<i64>(&["PTTL", "held"]).await != -1).await;
        let (left, believed) = (raw.ask::<i64>(&["PTTL", "held"]).await, guard.valid_for());
        assert!(
            i128::from(left) >= i128::try_from(believed.as_millis()).unwrap(),
            "{left} ms of {believed:?}"
        );
        released(guard).await;
    });
}

// Proves: B14, replica-promoted
pub(crate) fn a_promoted_lagging_replica_grants_a_higher_token() {
    run(async {
        let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
        let between = Proxy::start(&format!("127.0.0.1:{}", primary.port())).await.unwrap();
        let port = between.address().port().to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
        let mut raw = replica.raw().await;
        until("it follows", async || raw.info("replication", "master_link_status").await == "up").await;
        let client = primary.client("").await;
        released(hold(&client, "held").await).await;
        until("it has the token", async || raw.keys().await.len() == 1).await;
        // From here on, the replica receives nothing.
        between.hold(Direction::ToClient);
        let first = hold(&client, "held").await;
        primary.kill();
        let _: () = raw.ask(&["REPLICAOF", "NO", "ONE"]).await;
        let second = hold(&replica.client("").await, "held").await;
        let resource = Fence::new();
        resource.accept(second.token()).unwrap();
        assert!(resource.accept(first.token()).is_err(), "{} after {}", first.token(), second.token());
        is_lost_in_time(first).await;
        released(second).await;
    });
}
