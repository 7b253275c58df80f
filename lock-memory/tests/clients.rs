//! All families through the core, as users and their tests use them; in virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod virtual_time;

use std::time::Duration;

use lock_core::driver::{Revoked, When};
use lock_core::{Client, Ending, ErrorKind, Guard, Lock, LossReason, Options};
use lock_memory::{Link, Memory, ServerClock, ServerTime};
use virtual_time::clock;

const MILLISECOND: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_millis(300);
/// Every step of a test takes less than this.
const LIMIT: Duration = Duration::from_secs(10);

fn families() -> [Memory; 3] {
    [Memory::with_clock(servers_clock()), queue(), register()]
}

fn queue() -> Memory {
    Memory::queue_with_clock(servers_clock())
}

fn register() -> Memory {
    Memory::register_with_clock(servers_clock())
}

fn servers_clock() -> ServerClock {
    ServerClock::new(clock(), ServerTime::from_micros(1_700_000_000_000_000))
}

async fn client(memory: &Memory) -> Client {
    client_of(&memory.link()).await
}

async fn client_of(link: &Link) -> Client {
    link.client_with(options()).await.unwrap()
}

fn options() -> Options {
    Options::default().clock(clock())
}

fn lock(client: &Client) -> Lock {
    client.lock("n").ttl(TTL).build().unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let in_time = clock().timeout(LIMIT, future).await;
    in_time.unwrap_or_else(|| panic!("{what} took more than {LIMIT:?}"))
}

/// Returns how many clients wait, as the server tells. The lease family doesn't know.
async fn waiters(lock: &Lock) -> usize {
    lock.inspect().await.unwrap().waiters.map_or(0, |waiters| waiters.len())
}

/// Waits until `there` is true.
async fn until(what: &str, mut there: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !there().await {
            clock().sleep(MILLISECOND).await;
        }
    };
    soon(what, reached).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_next_single_holder() {
    for memory in families() {
        let (a, b) = (client(&memory).await, client(&memory).await);
        // With this ttl, neither the end of the lease nor that of a session can wake the waiter.
        let held = a.lock("n").build().unwrap().acquire().await.unwrap();
        assert!(lock(&b).try_acquire().await.unwrap().is_none(), "{memory:?}");

        let begin = memory.counters().requests;
        let waiting = tokio::spawn({
            let lock = b.lock("n").build().unwrap();
            async move { lock.acquire().await }
        });
        // The waiter has looked, listened and looked again, or it has its place.
        until("waiting", async || memory.counters().requests >= begin + 3).await;
        let token = held.token();
        assert_eq!(held.release().await, Ending::Released);
        // The core's own look, without a wake-up, comes after 3.75 s at the soonest.
        let next = clock().timeout(Duration::from_secs(2), waiting).await.expect("woken").unwrap().unwrap();
        assert!(next.token() > token, "{memory:?}");
        assert!(lock(&a).try_acquire().await.unwrap().is_none(), "{memory:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases() {
    for memory in families() {
        let (a, b) = (client(&memory).await, client(&memory).await);
        drop(lock(&a).acquire().await.unwrap());
        drop(soon("the next grant", lock(&b).acquire()).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_keeps_a_lock() {
    for memory in families() {
        let client = client(&memory).await;
        let guard = client.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
        let work = guard.protect(clock().sleep(TTL * 3)).await;
        work.unwrap_or_else(|e| panic!("{memory:?}: {e}"));
        assert_eq!(guard.release().await, Ending::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_told_as_lost() {
    for (memory, cause) in families().into_iter().zip([LossReason::Gone, LossReason::Session]) {
        let (a, b) = (client(&memory).await, client(&memory).await);
        let guard = lock(&a).acquire().await.unwrap();
        assert!(memory.expire("n"));
        assert!(!memory.expire("n"));
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost, cause, "{memory:?}");
        assert!(!guard.is_held());
        assert_eq!(guard.release().await, Ending::Expired);
        // A client whose session has ended opens another session.
        assert!(lock(&a).try_acquire().await.unwrap().is_some(), "{memory:?}");
        drop(soon("the next grant", lock(&b).acquire()).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_free_at_the_holders_deadline() {
    for memory in families() {
        let (a, b) = (client(&memory).await, client(&memory).await);
        let guard = lock(&a).acquire().await.unwrap();
        let Revoked::FreeIn(left) = memory.revoke("n") else { panic!("{memory:?}: revoked") };
        assert!(left <= TTL, "{left:?}");
        assert_eq!(memory.revoke("other"), Revoked::NotHeld);
        assert!(lock(&b).try_acquire().await.unwrap().is_none(), "{memory:?}: free too soon");
        assert_eq!(soon("the loss", guard.lost()).await, LossReason::Revoked, "{memory:?}");
        drop(soon("the next grant", lock(&b).acquire()).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_revoked_now_is_free_at_once() {
    for memory in families() {
        let (a, b) = (client(&memory).await, client(&memory).await);
        let guard = a.lock("n").build().unwrap().acquire().await.unwrap();
        let holder = lock(&b).inspect().await.unwrap().holder.unwrap();
        assert_eq!(holder.owner.to_string(), guard.owner().to_string());
        assert_eq!(holder.token, Some(guard.token()));
        assert_eq!(lock(&b).revoke(&holder.owner, When::Now).await.unwrap(), Revoked::Free);
        assert_eq!(lock(&b).revoke(&holder.owner, When::Now).await.unwrap(), Revoked::NotHeld);
        let next = lock(&b).try_acquire().await.unwrap().expect("free");
        assert!(guard.renew(TTL).await.is_err(), "{memory:?}");
        assert_eq!(guard.lost().await, LossReason::Revoked, "{memory:?}");
        drop(guard);
        assert!(next.renew(TTL).await.is_ok(), "{memory:?}: the next holder keeps its lock");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_holder_knows_before_the_next_grant() {
    for memory in families() {
        let (link, b) = (memory.link(), client(&memory).await);
        let a = client_of(&link).await;
        let guard = lock(&a).acquire().await.unwrap();
        link.disconnect();
        let next = soon("the next grant", lock(&b).acquire()).await.unwrap();
        assert!(!guard.is_held(), "{memory:?}");
        assert_eq!(soon("the loss", guard.lost()).await, LossReason::Expired);
        drop(guard);
        link.reconnect();
        // The late release finds another client's lock, and leaves it alone.
        let mine = lock(&a);
        assert!(clock().timeout(TTL, mine.acquire()).await.is_none(), "{memory:?}: not exclusive");
        next.check().expect("held");
        drop(next);
        drop(soon("the first client's next grant", lock(&a).acquire()).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_client_is_notified_and_leaves_nothing() {
    for memory in families() {
        let link = memory.link();
        let (a, b) = (client_of(&link).await, client(&memory).await);
        link.disconnect();
        let error = soon("the error", lock(&a).try_acquire()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        link.reconnect();
        drop(soon("the other's grant", lock(&b).try_acquire()).await.unwrap().expect("free"));
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_that_give_up_leave_nothing_in_the_queue() {
    let memory = queue();
    let holder = client(&memory).await;
    let guard = lock(&holder).acquire().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(client(&memory).await);
    }
    let waiting: Vec<_> = clients
        .iter()
        .map(|client| {
            let lock = lock(client);
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        })
        .collect();
    until("waiting", async || waiters(&lock(&holder)).await == 5).await;
    for waiting in waiting {
        waiting.abort();
    }
    until("gone", async || waiters(&lock(&holder)).await == 0).await;
    guard.check().expect("held");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_no_listener() {
    let memory = Memory::with_clock(servers_clock());
    let (a, b) = (client(&memory).await, client(&memory).await);
    let _guard = lock(&a).acquire().await.unwrap();
    let waiting = lock(&b);
    let waiting = tokio::spawn(async move { waiting.acquire().await.map(drop) });
    until("listening", async || memory.counters().kept == 2).await;
    waiting.abort();
    until("gone", async || memory.counters().kept == 1).await;
}

#[tokio::test(start_paused = true)]
async fn processes_are_served_in_order_of_arrival() {
    let memory = queue();
    let first = client(&memory).await;
    let guard = lock(&first).acquire().await.unwrap();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..4 {
        let client = client(&memory).await;
        let served = served.clone();
        tokio::spawn(async move {
            let guard = lock(&client).acquire().await.unwrap();
            served.send(n).unwrap();
            drop(guard);
            client.shutdown(LIMIT).await;
        });
        until("waiting", async || waiters(&lock(&first)).await == n + 1).await;
    }
    drop(guard);
    for n in 0..4 {
        assert_eq!(soon("the next", order.recv()).await, Some(n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_predecessor_wakes_its_successor() {
    let memory = queue();
    let (link, b, c) = (memory.link(), client(&memory).await, client(&memory).await);
    let a = client_of(&link).await;
    let guard = lock(&a).acquire().await.unwrap();
    // The waiter has a long ttl: neither its own session nor the core's own look would find out so soon.
    let waiting = tokio::spawn({
        let lock = c.lock("n").build().unwrap();
        async move { lock.acquire().await }
    });
    until("waiting", async || waiters(&lock(&b)).await == 1).await;
    link.disconnect();
    let woken = clock().timeout(Duration::from_secs(2), waiting).await;
    assert!(woken.is_some(), "the end of the dead holder's session wakes the waiter");
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn locks_of_one_ttl_share_a_session_until_idle() {
    let memory = queue();
    let client = client(&memory).await;
    let before = memory.counters().requests;
    let many: Vec<_> = (0..10).map(|n| client.lock(format!("n{n}")).ttl(TTL).build().unwrap()).collect();
    let mut guards = Vec::new();
    for lock in &many {
        guards.push(lock.acquire().await.unwrap());
    }
    assert_eq!(memory.counters().requests - before, 11, "one session is opened");
    // Ten locks need one heartbeat where leases would need twenty renewals.
    let (before, start) = (memory.counters().requests, clock().now());
    clock().sleep(TTL * 2).await;
    let sent = memory.counters().requests - before;
    let most = clock().now().since(start).as_millis() / (TTL / 3).as_millis() + 2;
    assert!(guards.iter().all(Guard::is_held));
    assert!(u128::from(sent) <= most, "{sent} requests for ten locks, where {most} are enough");
    guards.clear();
    // A closed session shows as silence.
    until("silence", async || {
        let before = memory.counters().requests;
        clock().sleep(TTL).await;
        memory.counters().requests == before
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_closes_its_sessions() {
    let memory = queue();
    let client = client(&memory).await;
    let lock = client.lock("n").ttl(Duration::from_secs(3600)).build().unwrap();
    assert_eq!(lock.acquire().await.unwrap().release().await, Ending::Released);
    assert_eq!(client.shutdown(LIMIT).await, 0);
    let before = memory.counters().requests;
    drop((client, lock));
    // The next heartbeat would be due in twenty minutes.
    until("closed", async || memory.counters().requests == before + 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_finds_it_held_writes_nothing() {
    for memory in families() {
        let (a, b) = (client(&memory).await, client(&memory).await);
        let _guard = a.lock("n").build().unwrap().acquire().await.unwrap();
        let before = memory.counters();
        for _ in 0..10 {
            assert!(lock(&b).try_acquire().await.unwrap().is_none());
        }
        let after = memory.counters();
        assert!(after.requests >= before.requests + 10);
        assert_eq!(after.writes, before.writes, "{memory:?}");
    }
}

// Proves: prefix
#[tokio::test(start_paused = true)]
async fn urls_name_servers_of_this_process() {
    for scheme in ["memory", "memory+queue", "memory+register"] {
        let base = format!("{scheme}://urls");
        let a = lock_memory::connect(&format!("{base}?patience=1s"), Options::default()).await.unwrap();
        let b =
            lock_memory::connect(&format!("{base}?prefix=p:&lazy=true&connect_wait=30s"), Options::default())
                .await
                .unwrap();
        let _guard = a.lock("p:n").build().unwrap().acquire().await.unwrap();
        assert!(b.lock("n").build().unwrap().try_acquire().await.unwrap().is_none(), "{scheme}: one server");
        assert!(a.lock("n").build().unwrap().try_acquire().await.unwrap().is_some(), "{scheme}: a prefix");
        assert!(lock_memory::named(&base).unwrap().expire("p:n"));
        for bad in ["?x=1", "?patience=1", "?connect_wait=1", "?lazy=yes"] {
            let error = lock_memory::connect(&format!("{base}{bad}"), Options::default()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        }
    }
    assert!(lock_memory::named("redis://urls").is_err());
}

#[tokio::test(start_paused = true)]
async fn the_patience_is_the_urls() {
    for base in ["memory://patience", "memory+queue://patience", "memory+register://patience"] {
        let client = lock_memory::connect(&format!("{base}?patience=700ms"), options()).await.unwrap();
        let lock = client.lock("n").build().unwrap();
        lock_memory::named(base).unwrap().disconnect();
        let asked = client.clock().now();
        let error = lock.try_acquire().await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        let took = client.clock().now().since(asked);
        assert!(took >= MILLISECOND * 700 && took <= MILLISECOND * 702, "{base}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_prefix_is_woken() {
    let memory = lock_memory::named("memory://behind-a-prefix").unwrap();
    let url = "memory://behind-a-prefix?prefix=p:";
    let a = lock_memory::connect(url, Options::default()).await.unwrap();
    let b = lock_memory::connect(url, Options::default()).await.unwrap();
    let guard = a.lock("n").build().unwrap().acquire().await.unwrap();
    let begin = memory.counters().requests;
    let waiting = tokio::spawn({
        let lock = b.lock("n").build().unwrap();
        async move { lock.acquire().await }
    });
    until("waiting", async || memory.counters().requests >= begin + 4).await;
    drop(guard);
    drop(clock().timeout(Duration::from_secs(2), waiting).await.expect("woken").unwrap().unwrap());
}
