//! Trouble with a server is reported as what it is, and survived where that is possible.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Ending, ErrorKind, Guard, Lock, Options, Result};

use super::fencing::outlives_the_data;
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Data, Durable, Interrupt, OwnServers};
use crate::proxy::Proxy;
use crate::setting::{Contend, Net, Setting, granted_within, lost_in_time, ms, opened, renewed};
use crate::timing::{Returned, assert_in_time, comes_true, released, still_held, void, within};

pub(crate) const CASES: &[Case] = &[
    case!(
        a_dead_server_is_an_error_and_no_contention,
        "down-is-an-error, honest-outcomes, transient, server-restarted",
        [B15]
    ),
    case!(
        a_silent_server_is_an_error_in_time,
        "nothing-left, try-acquire, patience, error-kinds, server-stands-still",
        [B11, B15]
    ),
    case!(
        a_server_stalled_beyond_the_lease_harms_no_client,
        "waits-through-outages, server-stands-still",
        [B11, B20, B31]
    ),
    case!(a_server_that_stalls_a_moment_costs_no_lock, "busy-server", [B11, B31]),
    case!(cut_connections_and_flushed_caches_are_not_noticed, "transient, redis-scripts, flushed-or-killed", [B16, B31]; load Heavy),
    case!(waiters_and_holders_survive_restarts_with_data, "waits-through-outages, server-restarted", [B16, B31]; load Medium),
    case!(waiters_survive_restarts_without_data, "waits-through-outages, data-lost", [B31]; load Medium),
];

async fn a_dead_server_is_an_error_and_no_contention(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, mut server) = (s.name(), servers.start().await);
    let client = opened(&*server).await;
    released(s.hold_by(&client, &name).await).await;
    server.kill();
    let lock = s.lock(&client, &name).wait(ms(300)).built();
    is_unavailable(lock.try_acquire().await);
    let started = Instant::now();
    is_unavailable(within("its wait is over", bounds::EVENTUALLY, lock.acquire()).await);
    assert!(started.elapsed() >= ms(300), "{:?}", started.elapsed());
    assert!(lock.inspect().await.is_err());
    server.start(Data::Lost);
    let wait = server.recovers_in() + Duration::from_secs(5);
    let lock = s.lock(&client, &name).wait(wait).built();
    released(lock.acquire().await.expect("it is back")).await;
}

/// Checks the outcome of a call that no server answers.
fn is_unavailable<T: Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("no server answers");
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
}

async fn a_silent_server_is_an_error_in_time(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, wait) = (s.name(), ms(200));
    let mut server = servers.start().await;
    let (client, other) = (opened(&*server).await, opened(&*server).await);
    server.pause();
    // Its attempt may be granted long after that.
    let ttl = Duration::from_secs(25).min(client.info().max_ttl);
    let lock = client.lock(name.as_str()).ttl(ttl).wait(wait).built();
    let started = Instant::now();
    is_unavailable(lock.acquire().await);
    // The caller does not have to wait until the request is given up.
    let longest = bounds::patience(ttl) / 2;
    assert_in_time!(started.elapsed() < longest, "{:?} for a wait of {wait:?}", started.elapsed());
    let lock = s.lock(&client, &s.name()).built();
    let started = Instant::now();
    is_unavailable(lock.try_acquire().await);
    assert_in_time!(started.elapsed() < bounds::patience(s.ttl()), "{:?}", started.elapsed());
    server.resume();
    // Whatever those attempts do now is undone.
    for name in [&name, lock.name()] {
        released(s.lock(&other, name).held_within("nothing was left behind", ms(1000)).await).await;
    }
}

/// The server does not answer and does not forget, and its clock goes on.
async fn a_server_stalled_beyond_the_lease_harms_no_client(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, free) = (s.name(), s.name());
    let mut server = servers.start().await;
    let guard = Arc::new(s.hold_on(&*server, &name).await);
    let other = opened(&*server).await;
    let (lock, held) = (s.lock(&other, &name).built(), guard.clone());
    let waiter = tokio::spawn(async move {
        let next = lock.acquire().await.expect("a server that stands still is no reason to give up");
        assert!(!held.is_held() && next.token() > held.token(), "two at a time");
        next.release().await
    });
    tokio::time::sleep(s.ttl() / 2).await;
    server.pause();
    still_held(&guard);
    let asked = s.lock(&other, &free).wait(s.ttl() * 10).built();
    let asked = tokio::spawn(async move { asked.acquire().await.and_then(|guard| guard.check()) });
    lost_in_time(&guard, &s.info, s.ttl()).await;
    tokio::time::sleep(s.ttl() / 2).await;
    assert!(!waiter.is_finished() && !asked.is_finished());
    server.resume();
    let next = within("the waiter has it", s.ttl() * 4 + ms(2000), waiter).await;
    assert_eq!(next.returned(), Ending::Released);
    let asked = within("an attempt without an answer is repeated", s.ttl() * 4 + ms(2000), asked).await;
    asked.returned().expect("it answers again");
}

/// For a third of a lease, as when another program keeps the whole server busy.
async fn a_server_that_stalls_a_moment_costs_no_lock(s: Setting, servers: Arc<dyn OwnServers>) {
    let mut server = servers.start().await;
    let client = opened(&*server).await;
    let ttl = (s.ttl() * 4).min(client.info().max_ttl);
    let lock = || s.lock(&client, &s.name()).ttl(ttl);
    let (held, given_up) = (lock().held().await, lock().held().await);
    renewed(&held, ttl).await;
    server.pause();
    let waiter = lock().waits();
    let release = tokio::spawn(given_up.release());
    tokio::time::sleep(ttl / 3).await;
    server.resume();
    released(granted_within("what waited is granted", ttl * 2, waiter).await).await;
    within("the release has got through", ttl * 2, release).await.returned();
    tokio::time::sleep(ttl).await;
    released(held).await;
}

async fn cut_connections_and_flushed_caches_are_not_noticed(s: Setting, admin: Arc<dyn Interrupt>, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = net.client(&proxy, Options::default()).await;
    let lock = client.lock(name.as_str()).ttl(Duration::from_secs(3)).built();
    let acquired =
        async || within("acquire", ms(3000), lock.acquire()).await.expect("a new connection is made");
    let is_released = async |guard: Guard| {
        assert_eq!(within("release", ms(3000), guard.release()).await, Ending::Released);
    };
    for _ in 0..10 {
        let guard = acquired().await;
        admin.interrupt().await;
        still_held(&guard);
        guard.renew(Duration::from_secs(3)).await.ok(); // may be cut off: then the client repeats it
        admin.interrupt().await;
        is_released(guard).await;
        interrupt(&*admin, &proxy, &lock).await;
    }
    // If the cut affects the next request, it must not be a request of the next case.
    is_released(acquired().await).await;
}

/// Cuts the connections of an idle client. If none was cut, the case has shown nothing.
async fn interrupt(admin: &dyn Interrupt, proxy: &Proxy, lock: &Lock) {
    let before = proxy.ended_by_servers();
    admin.interrupt().await;
    let asked = Instant::now();
    let cut = || std::future::ready(proxy.ended_by_servers() != before);
    // A client that reads the end of its connection closes it, perhaps before the server does. The server has time for
    // that.
    while !comes_true(ms(300), cut).await {
        if asked.elapsed() >= ms(3000) {
            void("the harness' interrupt() has cut no connection of the client");
        }
        // On a server whose cut affects the next request, this is that request.
        lock.try_acquire().await.map(drop).ok();
    }
}

async fn waiters_and_holders_survive_restarts_with_data(
    s: Setting,
    servers: Arc<dyn OwnServers>,
    _: Durable,
) {
    let (name, mut server) = (s.name(), servers.start().await);
    let holder = opened(&*server).await;
    // A database on a busy disk takes seconds to start again.
    let ttl = Duration::from_secs(12).min(holder.info().max_ttl);
    let guard = s.lock(&holder, &name).ttl(ttl).held().await;
    let waiter = s.lock_on(&*server, &name).await.ttl(ttl).waits();
    for _ in 0..5 {
        tokio::time::sleep(ms(100)).await;
        let killed = Instant::now();
        server.kill();
        tokio::time::sleep(ms(50)).await;
        server.start(Data::Kept);
        assert_in_time!(killed.elapsed() < ttl / 2, "the restart took {:?}", killed.elapsed());
        guard.renew(ttl).await.ok();
        still_held(&guard);
        assert!(!waiter.is_finished());
    }
    within("release", ms(4500), released(guard)).await;
    // The wake-up may be lost in an outage. Then the next safety poll finds the lock free.
    drop(granted_within("the waiter has it", server.recovers_in() + Duration::from_secs(7), waiter).await);
}

async fn waiters_survive_restarts_without_data(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, mut server) = (s.name(), servers.start().await);
    let guard = s.hold_on(&*server, &name).await;
    let waiter = s.lock_on(&*server, &name).await.waits();
    tokio::time::sleep(ms(100)).await;
    server.kill();
    // Long enough for the holder to know of the loss: a server that forgets gives the lock to the next client that
    // asks.
    lost_in_time(&guard, &s.info, s.ttl()).await;
    server.start(Data::Lost);
    let limit = server.recovers_in() + Duration::from_secs(7);
    let next = granted_within("the waiter has it", limit, waiter).await;
    assert!(next.token() > guard.token() || !outlives_the_data(&s));
}
