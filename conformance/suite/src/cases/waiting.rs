//! Waiters are served, told in time, and cost little.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_core::driver::{Attempt, Claim, Fair, Lease, Queueing, Release, Takeovers, Wakes};
use lock_core::{Client, ErrorKind, Guard};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::bounds;
use crate::case::{Case, case};
use crate::claims::granted;
use crate::harness::Count;
use crate::setting::{Contend, Setting, ms, waiters_of};
use crate::timing::{Answered, Returned, assert_answered, assert_in_time, released, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_wait_that_runs_out_names_the_holder, "honest-outcomes, wait-ends, error-kinds", [B15]),
    case!(a_waiter_has_it_after_a_release, "acquire", [B4]),
    case!(a_waiter_has_it_after_a_drop, "acquire", [B4]),
    case!(a_waiter_has_it_after_its_holder_died, "no-lock-for-ever", [B4, B5]; load Medium),
    case!(a_waiter_goes_by_its_holders_ttl, "no-lock-for-ever", [B5, B12]; if |s| s.info.lease == Lease::Lock),
    case!(no_wake_up_is_lost_over_many_hand_overs, "acquire", [B4, B31]; load Heavy),
    case!(waiters_of_one_process_come_in_their_order, "tasks-in-order", [B30]),
    case!(a_thousand_waiters_cost_four_requests_a_hand_over, "hand-over-cost", [B30]; load Heavy),
    case!(a_hand_over_costs_the_same_however_many_wait, "zk-order", [B30]; load Heavy; if |s| s.info.fair != Fair::No),
    case!(clients_come_in_the_order_in_which_they_asked, "zk-order", [B30]; if |s| s.info.fair != Fair::No),
    case!(two_processes_share_a_name_evenly, "even-turns", [B30]; load Heavy; if |s| s.info.wakes == Wakes::Pushed || s.info.fair != Fair::No),
];

async fn a_wait_that_runs_out_names_the_holder(s: Setting) {
    let (name, holder, waiter) = (s.name(), s.client().await, s.client().await);
    let guard = s.lock(&holder, &name).ttl(s.ttl() * 10).label("deploy@web-3 pid 4711").held().await;
    for wait in [Duration::ZERO, ms(1), ms(150)] {
        let started = Instant::now();
        let lock = s.lock(&waiter, &name).wait(wait).built();
        let outcome = within("its wait is over", bounds::EVENTUALLY, lock.acquire()).await;
        let error = outcome.expect_err("it is held");
        let took = started.elapsed();
        assert_answered(&error, took);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        // A holder that no attempt has seen is looked up, but not for long.
        assert_in_time!(error.to_string().contains("deploy@web-3 pid 4711"), "{error}");
        assert!(error.to_string().contains(name.as_str()), "{error}");
        assert!(took >= wait, "{took:?} for a wait of {wait:?}");
    }
    released(guard).await;
}

async fn a_waiter_has_it_after_a_release(s: Setting) {
    let (guard, waiter) = held_and_waited_for(&s).await;
    released(guard).await;
    within("the hand-over", ms(1000), waiter).await.returned();
}

async fn a_waiter_has_it_after_a_drop(s: Setting) {
    let (guard, waiter) = held_and_waited_for(&s).await;
    drop(guard);
    within("the hand-over", ms(1000), waiter).await.returned();
}

/// A holder that dies sends nothing. A lease that is not renewed has the same effect.
async fn a_waiter_has_it_after_its_holder_died(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let dead = s.lock(&client, &name).fixed_lease().held().await;
    let token = dead.token();
    std::mem::forget(dead);
    let bound = bounds::after_a_death(&s.info, s.ttl());
    let guard = s.lock_elsewhere(&name).await.held_within("the lease ends", bound).await;
    assert!(guard.token() > token);
}

/// The ttl of a waiter is the one that it will have, not the one that it waits for.
async fn a_waiter_goes_by_its_holders_ttl(s: Setting) {
    for (holders, waiters) in [(s.ttl(), s.ttl() * 10), (s.ttl() * 3, s.ttl())] {
        let (name, client) = (s.name(), s.client().await);
        let lock = s.lock_elsewhere(&name).await.ttl(waiters).built();
        let mut dead = s.claim(&client, &name, holders, Queueing::No);
        let asked = Instant::now();
        granted(&mut dead).await;
        let guard = within("the lease ends", holders + ms(400), lock.acquire()).answered().await;
        assert!(asked.elapsed() + ms(100) >= holders, "after {:?} of {holders:?}", asked.elapsed());
        // However long the waiter has waited, its own lease begins now.
        let left = guard.valid_for();
        assert!(left <= waiters, "{left:?} of {waiters:?}");
        assert_in_time!(left > waiters / 2, "{left:?} of {waiters:?}");
        released(guard).await;
    }
}

/// Holds a lock, and starts a task that waits for it, and is certain to wait when this returns. It then releases the lock.
async fn held_and_waited_for(s: &Setting) -> (Guard, JoinHandle<()>) {
    let name = s.name();
    let guard = s.hold_long(&name).await;
    let lock = s.lock_elsewhere(&name).await.ttl(s.long()).built();
    let waiter = tokio::spawn(async move { released(lock.acquire().answered().await).await });
    tokio::time::sleep(ms(60)).await;
    assert!(!waiter.is_finished());
    (guard, waiter)
}

/// Releases at every moment around the other clients' looks, listens and waits. A lost wake-up costs a safety poll,
/// which takes seconds.
async fn no_wake_up_is_lost_over_many_hand_overs(s: Setting) {
    let (name, worst) = (s.name(), Arc::new(AtomicU64::new(0)));
    let clients = [s.client().await, s.client().await, s.client().await];
    let mut tasks = JoinSet::new();
    for client in clients {
        let lock = s.lock(&client, &name).ttl(Duration::from_secs(30).min(s.info.max_ttl)).built();
        let worst = worst.clone();
        tasks.spawn(async move {
            for n in 0..150_u64 {
                let asked = Instant::now();
                let guard = lock.acquire().answered().await;
                worst.fetch_max(asked.elapsed().as_millis() as u64, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_micros(n * 7 % 500)).await;
                guard.release().await;
            }
        });
    }
    tasks.join_all().await;
    let worst = ms(worst.load(Ordering::Relaxed));
    let bound = if s.info.wakes == Wakes::Pushed { ms(1500) } else { ms(3000) };
    assert_in_time!(worst < bound, "a waiter slept for {worst:?}");
}

async fn waiters_of_one_process_come_in_their_order(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.hold_by(&client, &name).await;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let lock = client.lock(name.as_str()).ttl(s.ttl() * 20).built();
        let turns = turns.clone();
        let (asking, asked) = oneshot::channel();
        tasks.spawn(async move {
            let (mut acquire, mut asking) = (pin!(lock.acquire()), Some(asking));
            let guard = poll_fn(|context| {
                let polled = acquire.as_mut().poll(context);
                asking.take().map(|asking| asking.send(()));
                polled
            });
            let guard = guard.answered().await;
            turns.lock().expect(NO_PANIC).push(n);
            guard.release().await;
        });
        // The order that is asserted is the order of asking.
        asked.await.expect("it asks");
    }
    drop(guard);
    tasks.join_all().await;
    assert_eq!(*turns.lock().expect(NO_PANIC), (0..20).collect::<Vec<_>>());
}

const NO_PANIC: &str = "no code panics while it holds this mutex";

async fn a_thousand_waiters_cost_four_requests_a_hand_over(s: Setting, admin: Arc<dyn Count>) {
    const TASKS: u64 = 1000;
    let (name, client) = (s.name(), s.client().await);
    let guard = client.lock(name.as_str()).ttl(Duration::from_secs(30)).held().await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let lock = client.lock(name.as_str()).ttl(Duration::from_secs(30)).built();
        tasks.spawn(async move {
            released(lock.acquire().answered().await).await;
        });
    }
    tokio::time::sleep(ms(100)).await;
    let before = admin.counters().await.requests;
    drop(guard);
    tasks.join_all().await;
    let each = (admin.counters().await.requests - before) as f64 / TASKS as f64;
    println!("{}: {each} requests a hand-over", s.harness.name());
    // Besides the hand-overs, there are the holder's look for a revoke, and the requests to listen: once, not at each
    // hand-over.
    let by_release = f64::from(s.info.requests_per_hand_over);
    let most = 0.05
        + match s.info.takeovers {
            // Every eighth time the lock is released for other clients.
            Takeovers::InOneRequest => (7.0 + by_release) / 8.0,
            _ => by_release,
        };
    assert!(each <= most, "{each} requests per hand-over");
}

/// Each waiter is in the server's queue, as processes are, and not in the client's.
async fn a_hand_over_costs_the_same_however_many_wait(s: Setting, admin: Arc<dyn Count>) {
    let (client, waiters) = (s.client().await, s.size("waiters in one queue", 128, 512));
    let few = cost_of_a_hand_over(&s, &*admin, &client, 8).await;
    let many = cost_of_a_hand_over(&s, &*admin, &client, waiters).await;
    println!("{}: {few} requests a hand-over with 8 waiters, {many} with {waiters}", s.harness.name());
    assert!(many <= few * 1.5, "{many} requests a hand-over with {waiters} waiters, {few} with 8");
}

/// Returns the number of requests per hand-over, while this many waiters take their turns one after the other. What they
/// ask from time to time to keep their places is left out: a machine that is busy makes hand-overs slow, and so more of it.
async fn cost_of_a_hand_over(s: &Setting, admin: &dyn Count, client: &Client, waiters: usize) -> f64 {
    let (name, queued) = (s.name(), Arc::new(AtomicUsize::new(0)));
    let claim = || s.claim(client, &name, s.ttl() * 20, Queueing::Queued);
    let mut holder = claim();
    granted(&mut holder).await;
    let mut turns = JoinSet::new();
    for _ in 0..waiters {
        turns.spawn(take_a_turn(claim(), queued.clone()));
    }
    until("all are in the queue", s.ttl() * 5, || async { queued.load(Ordering::SeqCst) == waiters }).await;
    let (waited, idle) = (requests_during(admin, tokio::time::sleep(s.ttl())).await, s.ttl());
    let began = Instant::now();
    let hand_overs = async {
        assert!(matches!(holder.release().answered().await, Release::Released { .. }));
        turns.join_all().await;
    };
    let during = requests_during(admin, hand_overs).await;
    // An upper bound: those who have had their turn ask no more.
    let kept_places = waited / idle.as_secs_f64() * began.elapsed().as_secs_f64();
    (during - kept_places) / waiters as f64
}

/// Returns how many requests the server gets while this is done.
async fn requests_during(admin: &dyn Count, work: impl Future) -> f64 {
    let before = admin.counters().await.requests;
    work.await;
    (admin.counters().await.requests - before) as f64
}

async fn take_a_turn(mut claim: Box<dyn Claim>, queued: Arc<AtomicUsize>) {
    assert!(matches!(claim.attempt().answered().await, Attempt::Busy(_)));
    claim.listen().answered().await;
    let mut is_counted = false;
    while let Attempt::Busy(busy) = claim.attempt().answered().await {
        queued.fetch_add(usize::from(!is_counted), Ordering::SeqCst);
        is_counted = true;
        // Some servers keep a place for those who look from time to time.
        let next_look = busy.free_in.unwrap_or(bounds::EVENTUALLY).max(ms(10));
        let _: Option<()> = tokio::time::timeout(next_look, claim.changed()).await.ok();
    }
    assert!(matches!(claim.release().answered().await, Release::Released { .. }));
}

/// Each client is a process to its server. Their ttls make no difference.
async fn clients_come_in_the_order_in_which_they_asked(s: Setting) {
    let (name, turns) = (s.name(), Arc::new(Mutex::new(Vec::new())));
    let held = s.hold_long(&name).await;
    let seen = s.lock_elsewhere(&name).await.built();
    let mut waiting = JoinSet::new();
    for n in 0..8_u32 {
        let (client, turns) = (s.client().await, turns.clone());
        let lock = client.lock(name.as_str()).ttl(s.ttl() * (10 + n % 2 * 10)).built();
        waiting.spawn(async move {
            let guard = lock.acquire().answered().await;
            turns.lock().expect(NO_PANIC).push(n);
            released(guard).await;
        });
        let is_queued = || async { waiters_of(&seen).await > n as usize };
        until("it stands in the queue", ms(5000), is_queued).await;
    }
    released(held).await;
    waiting.join_all().await;
    assert_eq!(*turns.lock().expect(NO_PANIC), (0..8).collect::<Vec<_>>());
}

/// Two clients with eight tasks each: neither gets more than twice what the other gets.
async fn two_processes_share_a_name_evenly(s: Setting) {
    let name = s.name();
    let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for process in 0..2 {
        let client = s.client().await;
        for _ in 0..8 {
            let lock = client.lock(name.as_str()).ttl(Duration::from_secs(20)).built();
            let (stop, all) = (stop.clone(), all.clone());
            tasks.spawn(async move {
                let mut turns = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.acquire().answered().await;
                    turns += 1;
                    all.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(ms(1)).await;
                    guard.release().await;
                }
                (process, turns)
            });
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let enough = || std::future::ready(all.load(Ordering::Relaxed) >= 100);
    until("a hundred turns", Duration::from_secs(40), enough).await;
    stop.store(true, Ordering::Relaxed);
    let mut turns = [0; 2];
    for (process, n) in tasks.join_all().await {
        turns[process] += n;
    }
    let [a, b] = turns;
    // On a busy machine a process may be delayed by other work.
    assert_in_time!((a.max(b) <= 2 * a.min(b)), "{a} turns against {b}");
}
