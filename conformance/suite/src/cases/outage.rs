//! Networks that fail, in one direction or both, with or without an error, and recover.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Ending, ErrorKind, LossReason, Name, Options, Random};
use tokio::task::JoinSet;

use super::network::held_through;
use crate::bounds;
use crate::case::{Case, case};
use crate::proxy::{Cut, Direction, Fault, Proxy};
use crate::setting::{Contend, Net, Setting, granted_within, lost_in_time, ms, renewed, waiters_of};
use crate::timing::{
    Answered, Returned, assert_in_time, comes_true, released, still_held, until, void, within,
};

pub(crate) const CASES: &[Case] = &[
    case!(loss_is_told_in_time_with_a_dead_network, "loss-in-time, network-dead", [B11, B12, B20]; load Medium),
    case!(no_call_outlives_its_time_with_a_dead_network, "patience, network-dead", [B11, B15]; load Medium),
    case!(a_half_open_connection_costs_no_lock, "hiccups-cost-nothing, connection-dies-silently", [B11, B31]),
    case!(
        an_outage_shorter_than_the_lease_costs_no_lock,
        "hiccups-cost-nothing, connections-cut",
        [B11, B31]
    ),
    case!(
        a_waiter_whose_connections_died_in_silence_looks_again,
        "looks-by-itself, connection-dies-silently",
        [B4, B31]
    ),
    case!(a_waiter_without_its_place_is_woken_in_another, "zk-sessions, etcd-sessions", [B4, B31]; load Medium; if |s| s.info.fair != Fair::No),
    case!(dead_waiters_in_front_cost_one_timeout_however_many, "zk-dead-waiters, waiters-dead", [B5, B30]; load Heavy; if |s| s.info.fair != Fair::No),
    case!(connections_cut_at_any_moment_leave_nothing, "nothing-left, connections-cut", [B2, B18, B31, B34]; load Medium),
];

const LONG: Duration = Duration::from_secs(20);

/// Lets nothing get through any more, without an error: in this direction, or in both.
fn dies(proxy: &Proxy, direction: Option<Direction>) {
    match direction {
        None => proxy.hold_all(),
        Some(direction) => proxy.hold(direction),
    }
}

/// Runs the case for each failure, side by side, each with its own proxy.
async fn with_each<F: Future<Output = ()> + Send + 'static>(
    s: &Setting,
    net: &Net,
    case: fn(Setting, Net, Option<Direction>) -> F,
) {
    let mut cases = JoinSet::new();
    for dead in [None, Some(Direction::ToServer), Some(Direction::ToClient)] {
        cases.spawn(case(s.clone(), net.clone(), dead));
    }
    cases.join_all().await;
}

async fn loss_is_told_in_time_with_a_dead_network(s: Setting, net: Net) {
    with_each(&s, &net, |s, net, dead| async move {
        let (name, proxy) = (s.name(), net.proxy().await);
        // A request may take far longer than the lease lasts. The loss must not wait for it.
        let client = net.client(&proxy, Options::default().patience(s.ttl() * 3)).await;
        let guard = Arc::new(s.hold_by(&client, &name).await);
        let (held, next) = (guard.clone(), s.lock_elsewhere(&name).await.built());
        let next = tokio::spawn(async move {
            let next = next.acquire().answered().await;
            assert!(!held.is_held(), "two at a time");
            next.release().await
        });
        tokio::time::sleep(s.ttl()).await;
        // An answer that is under way may still arrive, and would move the end.
        renewed(&guard, s.ttl()).await;
        let (asked, left) = (Instant::now(), guard.valid_for());
        dies(&proxy, dead);
        let cause = lost_in_time(&guard, &s.info, s.ttl()).await;
        assert_eq!(cause, LossReason::Expired, "{dead:?}");
        assert!(asked.elapsed() >= left, "{dead:?}: given up after {:?} of {left:?}", asked.elapsed());
        assert!(!guard.is_held() && guard.valid_for().is_zero());
        // The server may have received the last renewal.
        let next = within("the next has it", s.ttl() * 3, next).await;
        assert_eq!(next.returned(), Ending::Released, "{dead:?}");
    })
    .await;
}

async fn no_call_outlives_its_time_with_a_dead_network(s: Setting, net: Net) {
    with_each(&s, &net, |s, net, dead| async move {
        let patience = ms(150);
        let (name, proxy) = (s.name(), net.proxy().await);
        let options = || Options::default().patience(patience);
        let client = net.client(&proxy, options()).await;
        let lock = s.lock(&client, &s.name()).wait(ms(200)).built();
        let ttl = s.ttl() * 2;
        let guard = s.lock(&client, &name).ttl(ttl).held().await;
        dies(&proxy, dead);
        let died = Instant::now();
        if s.info.lease == Lease::Session {
            tokio::time::sleep(ttl / 8).await;
        }
        let before = died.elapsed();
        match ends("renew", patience, guard.renew(ttl)).await {
            Err(renewed) => assert!(renewed.is_transient(), "{renewed:?}"),
            // The last proof of a session may be recent enough. It is from before the failure.
            Ok(left) => {
                assert!(s.info.lease == Lease::Session && left + before <= ttl, "{left:?}, {before:?} after");
            }
        }
        for what in ["acquire", "try_acquire", "inspect"] {
            let outcome = match what {
                // Its wait ends it, whatever becomes of its requests.
                "acquire" => within(what, bounds::EVENTUALLY, lock.acquire()).await.map(drop),
                "inspect" => ends(what, patience, lock.inspect()).await.map(drop),
                _ => ends(what, patience, lock.try_acquire()).await.map(drop),
            };
            let error = outcome.expect_err("the network is dead");
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{what}: {error:?}");
        }
        let released = within("release", guard.valid_for() + bounds::EVENTUALLY, guard.release());
        assert_eq!(released.await, Ending::Expired, "{dead:?}");
        let opened = net.open_through(proxy.addresses(), options());
        let opened = ends("open", patience, opened).await.map(drop).expect_err("the network is dead");
        assert!(opened.is_transient(), "{opened:?}");
    })
    .await;
}

/// Returns what a call returns, and checks that it takes no longer than this.
async fn ends<T>(what: &str, time: Duration, call: impl Future<Output = T>) -> T {
    let asked = Instant::now();
    let out = within(what, time * 10 + ms(3000), call).await;
    assert_in_time!(asked.elapsed() <= time + ms(100), "{what}: {:?} instead of {time:?}", asked.elapsed());
    out
}

async fn a_half_open_connection_costs_no_lock(s: Setting, net: Net) {
    let (proxy, guard, ttl) = held_through(&s, &*net).await;
    for _ in 0..2 {
        proxy.cut(Cut::HalfOpen);
        s.stays_held(&guard, ttl * 5 / 4, ttl / 8).await;
    }
    s.freed(guard).await;
}

async fn an_outage_shorter_than_the_lease_costs_no_lock(s: Setting, net: Net) {
    let (proxy, guard, ttl) = held_through(&s, &*net).await;
    for _ in 0..2 {
        proxy.refuse();
        let refused = proxy.count(Fault::Refused);
        proxy.cut(Cut::Reset);
        tokio::time::sleep(ttl / 3).await;
        // A client that connects for its next renewal comes a little later. Without any connection, this was no outage.
        if !comes_true(ttl / 6, || async { proxy.count(Fault::Refused) > refused }).await {
            void("no connection was refused");
        }
        proxy.accept();
        s.stays_held(&guard, ttl * 5 / 4, ttl / 8).await;
    }
    s.freed(guard).await;
}

async fn a_waiter_whose_connections_died_in_silence_looks_again(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = net.client(&proxy, Options::default()).await;
    let guard = s.hold(&name).await;
    let waiter = s.lock(&client, &name).waits();
    tokio::time::sleep(s.ttl()).await;
    proxy.cut(Cut::HalfOpen);
    released(guard).await;
    // It has not heard of the release. It looks when the lease that it saw would end.
    released(granted_within("the waiter has it", s.ttl() * 2 + ms(1000), waiter).await).await;
}

async fn a_waiter_without_its_place_is_woken_in_another(s: Setting, net: Net) {
    let mut waits = JoinSet::new();
    for _ in 0..4 {
        waits.spawn(waits_in_two_places(s.clone(), net.clone()));
    }
    waits.join_all().await;
}

/// The waiter listens once, and must be woken in every place that it has after that.
async fn waits_in_two_places(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let lock = s.lock_elsewhere(&name).await.ttl(s.long()).built();
    let guard = lock.acquire().answered().await;
    let waiting = net.client(&proxy, Options::default()).await;
    let waiter = s.lock(&waiting, &name).waits();
    until("it waits", LONG, || async { waiters_of(&lock).await == 1 }).await;
    proxy.refuse();
    proxy.cut(Cut::Reset);
    until("its session has ended", LONG, || async { waiters_of(&lock).await == 0 }).await;
    proxy.accept();
    until("it waits again", LONG, || async { waiters_of(&lock).await == 1 }).await;
    // Whatever it was woken for before, it sleeps again by now.
    tokio::time::sleep(s.ttl()).await;
    released(guard).await;
    released(granted_within("the hand-over", ms(1000), waiter).await).await;
}

async fn dead_waiters_in_front_cost_one_timeout_however_many(s: Setting, net: Net) {
    let mut waits = JoinSet::new();
    for dead in [1, 10, 100] {
        waits.spawn(waits_behind(s.clone(), net.clone(), dead));
    }
    waits.join_all().await;
}

/// Each dead waiter has a session of its own. The sessions end side by side, and not one after the other.
async fn waits_behind(s: Setting, net: Net, dead: usize) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let lock = s.lock_elsewhere(&name).await.ttl(s.ttl() * 10).built();
    let guard = lock.acquire().answered().await;
    let mut in_front = JoinSet::new();
    for _ in 0..dead {
        let client = net.client(&proxy, Options::default()).await;
        let lock = s.lock(&client, &name).built();
        in_front.spawn(async move { lock.acquire().await.map(drop) });
    }
    until("they wait", LONG, || async { waiters_of(&lock).await == dead }).await;
    let survivor = s.lock_elsewhere(&name).await.waits();
    until("it waits", LONG, || async { waiters_of(&lock).await == dead + 1 }).await;
    proxy.hold_all();
    let died = Instant::now();
    released(guard).await;
    let next = granted_within("the last waiter has it", LONG, survivor).await;
    let (took, bound) = (died.elapsed(), bounds::after_a_death(&s.info, s.ttl()));
    assert_in_time!(took <= bound, "{took:?} behind {dead} dead waiters: no more than {bound:?} is promised");
    released(next).await;
    in_front.abort_all();
}

/// Runs two clients that take turns while their connections are cut all the time.
async fn connections_cut_at_any_moment_leave_nothing(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), Arc::new(net.proxy().await));
    let entries = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let asked = Instant::now();
    let first = net.client(&proxy, Options::default()).await;
    released(s.hold_by(&first, &s.name()).await).await;
    // If the connections were cut sooner than a lock can be acquired on a new one, there would be no network at all.
    let connecting = asked.elapsed();
    for _ in 0..2 {
        let client = net.client(&proxy, Options::default()).await;
        tasks.spawn(hold_again_and_again(s.clone(), client, name.clone(), entries.clone()));
    }
    let cutting = tokio::spawn(cut_again_and_again(proxy.clone(), ms(15) + connecting));
    let held: u32 = tasks.join_all().await.into_iter().sum();
    cutting.abort();
    if held <= 10 {
        void(&format!("held {held} times of {}: the network hardly worked", 2 * ROUNDS));
    }
    until("nothing is left", s.ttl() * 2, || s.is_free(&name)).await;
}

async fn cut_again_and_again(proxy: Arc<Proxy>, longest: Duration) {
    for how in [Cut::Reset, Cut::Closed].into_iter().cycle() {
        tokio::time::sleep(Random::system().up_to(longest)).await;
        proxy.cut(how);
    }
}

const ROUNDS: u32 = 25;

/// Returns in how many of the rounds the lock was held.
async fn hold_again_and_again(s: Setting, client: Client, name: Name, entries: Arc<AtomicU64>) -> u32 {
    let lock = client.lock(name.as_str()).ttl(s.ttl() * 4).wait(ms(2000)).built();
    let mut held = 0;
    for _ in 0..ROUNDS {
        let guard = match within("acquire", ms(3000), lock.acquire()).await {
            Ok(guard) => guard,
            Err(e) => {
                assert!(e.is_transient() || e.kind() == ErrorKind::Timeout, "{e:?}");
                continue;
            }
        };
        let before = entries.fetch_add(1, Ordering::SeqCst);
        held += 1;
        if let Err(e) = guard.renew(s.ttl() * 4).await {
            assert!(e.is_transient(), "{e:?}");
        }
        // If the lock is held now, every client that has entered until now entered while it was held.
        let came = entries.load(Ordering::SeqCst) - before - 1;
        still_held(&guard);
        assert_eq!(came, 0, "two are inside");
        // A release that was cut may have been done. The repeated release can't tell.
        within("release", s.ttl() * 5, guard.release()).await;
    }
    held
}
