//! Waiting: who waits is served, told in time, and cheap.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::driver::{Attempt, Fair, Lease, Waits, Wakes};
use lock_core::{Ending, ErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::case;
use crate::bounds;
use crate::runner::Case;
use crate::setting::{Setting, ms, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_wait_that_runs_out_names_the_holder, [B15]),
    case!(a_waiter_has_it_after_a_release, [B4]),
    case!(a_waiter_has_it_after_a_drop, [B4]),
    case!(a_waiter_has_it_after_its_holder_died, [B4, B5]; load Heavy),
    case!(a_waiter_goes_by_its_holders_ttl, [B5, B12]; if |info| info.lease == Lease::Lock),
    case!(no_wake_up_is_lost_over_many_hand_overs, [B4, B31]; load Heavy),
    case!(waiters_of_one_process_come_in_their_order, [B30]),
    case!(a_thousand_waiting_tasks_cost_four_requests_a_hand_over, [B30]; needs [Counters]; load Heavy),
    case!(two_processes_share_a_name_evenly, [B30]; load Heavy; if |info| info.wakes == Wakes::Pushed || info.fair != Fair::No),
];

async fn a_wait_that_runs_out_names_the_holder(s: Setting) {
    let (name, holder, waiter) = (s.name(), s.client().await, s.client().await);
    let lock = holder
        .lock(name.as_str())
        .ttl(s.ttl() * 10)
        .label("deploy@web-3 pid 4711")
        .build()
        .expect("fine terms");
    let guard = lock.acquire().await.expect("up");
    for wait in [Duration::ZERO, ms(1), ms(150)] {
        let started = Instant::now();
        let lock = s.lock(&waiter, &name).wait(wait).build().expect("fine terms");
        let error = lock.acquire().await.expect_err("it is held");
        let took = started.elapsed();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(error.to_string().contains("deploy@web-3 pid 4711"), "{error}");
        assert!(error.to_string().contains(name.as_str()), "{error}");
        assert!(took >= wait && took < wait + ms(400), "{took:?} for a wait of {wait:?}");
    }
    assert_eq!(guard.release().await, Ending::Released);
}

async fn a_waiter_has_it_after_a_release(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    let waiter = waiting(&s, &name).await;
    assert_eq!(guard.release().await, Ending::Released);
    within("the hand-over", ms(1000), waiter).await.expect("no panic");
}

async fn a_waiter_has_it_after_a_drop(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    let waiter = waiting(&s, &name).await;
    drop(guard);
    within("the hand-over", ms(1000), waiter).await.expect("no panic");
}

/// A holder that dies announces nothing: a lease that nobody renews stands for it.
async fn a_waiter_has_it_after_its_holder_died(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).fixed_lease().build().expect("fine terms");
    let dead = lock.acquire().await.expect("up");
    let token = dead.token();
    std::mem::forget(dead);
    let other = s.client().await;
    let lock = s.lock(&other, &name).build().expect("fine terms");
    let bound = bounds::after_a_death(&s.info, s.ttl());
    let guard = within("the lease ends", bound, lock.acquire()).await.expect("up");
    assert!(guard.token() > token);
}

/// The ttl of a waiter is the one that it will have, not the one that it waits for.
async fn a_waiter_goes_by_its_holders_ttl(s: Setting) {
    for (holders, waiters) in [(s.ttl(), s.ttl() * 10), (s.ttl() * 3, s.ttl())] {
        let name = s.name();
        let (client, other) = (s.client().await, s.client().await);
        let lock = other.lock(name.as_str()).ttl(waiters).build().expect("fine terms");
        let mut dead = s.claim(&client, &name, holders, Waits::No);
        let asked = Instant::now();
        assert!(matches!(dead.attempt().await, Ok(Attempt::Granted(_))), "nobody else has it");
        let guard = within("the lease ends", holders + ms(400), lock.acquire()).await.expect("up");
        assert!(asked.elapsed() + ms(100) >= holders, "after {:?} of {holders:?}", asked.elapsed());
        // However long it has waited: its own time begins now.
        let left = guard.valid_for();
        assert!(left > waiters / 2 && left <= waiters, "{left:?} of {waiters:?}");
        assert_eq!(guard.release().await, Ending::Released);
    }
}

/// A task of its own that waits for `name`, and is surely waiting when this returns.
async fn waiting(s: &Setting, name: &lock_core::Name) -> tokio::task::JoinHandle<()> {
    let client = s.client().await;
    let lock = client.lock(name.as_str()).ttl(s.ttl() * 20).build().expect("fine terms");
    let task = tokio::spawn(async move {
        let guard = lock.acquire().await.expect("waits without end");
        assert_eq!(guard.release().await, Ending::Released);
        drop(client);
    });
    tokio::time::sleep(ms(60)).await;
    assert!(!task.is_finished());
    task
}

/// Releases at every moment around the other's look, listen and wait: a lost wake-up costs a safety poll, seconds.
async fn no_wake_up_is_lost_over_many_hand_overs(s: Setting) {
    let name = s.name();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(s.client().await);
    }
    let mut tasks = JoinSet::new();
    let worst = Arc::new(AtomicU64::new(0));
    for client in clients {
        let lock = client
            .lock(name.as_str())
            .ttl(Duration::from_secs(30).min(s.info.max_ttl))
            .build()
            .expect("fine");
        let worst = worst.clone();
        tasks.spawn(async move {
            for n in 0..150_u64 {
                let asked = Instant::now();
                let guard = lock.acquire().await.expect("up");
                worst.fetch_max(asked.elapsed().as_millis() as u64, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_micros(n * 7 % 500)).await;
                let _: Ending = guard.release().await;
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.expect("no task panics");
    }
    let bound = if s.info.wakes == Wakes::Pushed { 1500 } else { 3000 };
    assert!(worst.load(Ordering::Relaxed) < bound, "a waiter slept for {worst:?} ms");
}

async fn waiters_of_one_process_come_in_their_order(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.hold_by(&client, &name).await;
    let (order, mut came) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let lock = client.lock(name.as_str()).ttl(s.ttl() * 20).build().expect("fine terms");
        let order = order.clone();
        let (asking, asked) = oneshot::channel();
        tasks.spawn(async move {
            let (mut acquire, mut asking) = (pin!(lock.acquire()), Some(asking));
            let guard = poll_fn(|context| {
                let polled = acquire.as_mut().poll(context);
                asking.take().map(|asking| asking.send(()));
                polled
            });
            let guard = guard.await.expect("up");
            order.send(n).expect("somebody listens");
            let _: Ending = guard.release().await;
        });
        // The order that is asserted is the order of asking.
        asked.await.expect("it asks");
    }
    drop((guard, order));
    let mut seen = Vec::new();
    while let Some(n) = came.recv().await {
        seen.push(n);
    }
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}

async fn a_thousand_waiting_tasks_cost_four_requests_a_hand_over(s: Setting) {
    const TASKS: u64 = 1000;
    let (name, client) = (s.name(), s.client().await);
    let guard = client
        .lock(name.as_str())
        .ttl(Duration::from_secs(30))
        .build()
        .expect("fine")
        .acquire()
        .await
        .expect("up");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let lock = client.lock(name.as_str()).ttl(Duration::from_secs(30)).build().expect("fine terms");
        tasks.spawn(async move {
            let guard = lock.acquire().await.expect("up");
            assert_eq!(guard.release().await, Ending::Released);
        });
    }
    tokio::time::sleep(ms(100)).await;
    let before = s.harness.counters().await.requests;
    drop(guard);
    while let Some(outcome) = tasks.join_next().await {
        outcome.expect("no task panics");
    }
    let each = (s.harness.counters().await.requests - before) as f64 / TASKS as f64;
    let most = f64::from(s.info.requests_per_hand_over.max(4));
    assert!(each <= most, "{each} requests per hand-over");
}

/// Two clients of eight tasks each: neither gets more than twice what the other gets.
async fn two_processes_share_a_name_evenly(s: Setting) {
    let name = s.name();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for process in 0..2 {
        let client = s.client().await;
        for _ in 0..8 {
            let lock = client.lock(name.as_str()).ttl(Duration::from_secs(20)).build().expect("fine terms");
            let stop = stop.clone();
            tasks.spawn(async move {
                let mut turns = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.acquire().await.expect("up");
                    turns += 1;
                    tokio::time::sleep(ms(1)).await;
                    let _: Ending = guard.release().await;
                }
                (process, turns)
            });
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    stop.store(true, Ordering::Relaxed);
    let mut turns = HashMap::new();
    for (process, n) in tasks.join_all().await {
        *turns.entry(process).or_insert(0) += n;
    }
    let (a, b) = (turns[&0], turns[&1]);
    assert!(a.min(b) > 20 && a.max(b) <= 2 * a.min(b), "{a} turns against {b}");
}
