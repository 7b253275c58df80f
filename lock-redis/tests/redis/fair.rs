//! The fair lock: who is served when, what waiters cost, and what they leave.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::claims::{self, Terms};
use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Claim, Queueing, Release};
use lock_core::{Client, Ending};
use tokio::sync::mpsc;

use crate::server::{Raw, Server, claim, granted, name, run, until};

const FAIR: &str = "?fair=true&grace=60s";
/// A grace that a test can wait for.
pub(crate) const SHORT: &str = "?fair=true&grace=1s";
pub(crate) const GRACE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);

fn tries(client: &Client, lock: &str) -> Box<dyn Claim> {
    let ttl = Duration::from_secs(20);
    claims::claim(client, lock, Terms { ttl, patience: PATIENCE, waits: Queueing::No, label: "a test" })
}

/// Queues, and returns when to look again.
pub(crate) async fn queued(claim: &mut Box<dyn Claim>) -> Duration {
    match claim.attempt().await.unwrap() {
        Attempt::Busy(busy) if busy.queued => busy.free_in.expect("a waiter is told when to look"),
        other => panic!("{other:?}"),
    }
}

/// The name of the key beside the lock `n` whose last letter is this one.
pub(crate) async fn beside(raw: &mut Raw, letter: char) -> Option<String> {
    raw.keys().await.into_iter().find(|key| key.ends_with(&format!(":lock~{letter}")))
}

/// Puts waiters into the queue that will never attempt again, the first one first.
async fn dead_waiters(raw: &mut Raw, number: u32) {
    let (order, alive) = (beside(raw, 'o').await.unwrap(), beside(raw, 'a').await.unwrap());
    let (seconds, micros): (i64, i64) = raw.ask(&["TIME"]).await;
    let until_when = (seconds * 1_000_000 + micros + 750_000).to_string();
    let _: u32 = raw.ask(&["DEL", &order, &alive]).await;
    for nth in 1..=number {
        let place = format!("1000:{nth:016x}{nth:032x} dead");
        let _: u32 = raw.ask(&["ZADD", &order, &nth.to_string(), &place]).await;
        let _: u32 = raw.ask(&["ZADD", &alive, &until_when, &place]).await;
    }
}

// Proves: redis-fair
pub(crate) fn processes_are_served_in_order_of_arrival() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let holder = server.client(FAIR).await.lock("n").build().unwrap().acquire().await.unwrap();
        let (served, mut order) = mpsc::unbounded_channel();
        for nth in 0..40_u32 {
            let (client, served) = (server.client(FAIR).await, served.clone());
            tokio::spawn(async move {
                let guard = client.lock("n").build().unwrap().acquire().await.unwrap();
                served.send(nth).unwrap();
                assert_eq!(guard.release().await, Ending::Released);
            });
            let waits = async || match beside(&mut raw, 'o').await {
                Some(order) => raw.ask::<u32>(&["ZCARD", &order]).await == nth + 1,
                None => false,
            };
            until("it has a place", waits).await;
        }
        let shown = server.client(FAIR).await.driver().inspect(&name("n"), PATIENCE).await.unwrap();
        assert_eq!(shown.waiters.map(|waiters| waiters.len()), Some(40));
        assert_eq!(holder.release().await, Ending::Released);
        for expected in 0..40 {
            assert_eq!(within("the next one is served", SOON, order.recv()).await, Some(expected));
        }
        until("nothing is left but the token", async || raw.keys().await.len() == 1).await;
    });
}

// Proves: redis-fair
pub(crate) fn a_try_neither_queues_nor_passes_a_waiter() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(FAIR).await);
        let mut holder = claim(&client, "n", 20_000);
        granted(&mut holder).await;
        let before = raw.keys().await;
        assert!(matches!(tries(&client, "n").attempt().await.unwrap(), Attempt::Busy(busy) if !busy.queued));
        assert_eq!(raw.keys().await, before);

        let mut waiter = claim(&client, "n", 20_000);
        queued(&mut waiter).await;
        holder.release().await.unwrap();
        assert!(matches!(tries(&client, "n").attempt().await.unwrap(), Attempt::Busy(busy) if !busy.queued));
        let mut late = claim(&client, "n", 20_000);
        queued(&mut late).await;
        granted(&mut waiter).await;
        // Another waiter's release of its place releases no lock.
        assert_eq!(late.release().await.unwrap(), Release::Released { others: Some(false) });
        assert_eq!(late.release().await.unwrap(), Release::NotHeld);
        assert!(matches!(tries(&client, "n").attempt().await.unwrap(), Attempt::Busy(_)));
    });
}

pub(crate) fn a_leaving_waiter_leaves_nothing_and_wakes_the_next() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let (a, b) = (server.client(FAIR).await, server.client(FAIR).await);
        let mut holder = claim(&a, "n", 20_000);
        granted(&mut holder).await;
        let (mut first, mut second) = (claim(&a, "n", 20_000), claim(&b, "n", 20_000));
        queued(&mut first).await;
        queued(&mut second).await;
        second.listen().await.unwrap();
        holder.release().await.unwrap();
        // It was told to the first one, which goes.
        assert!(matches!(first.release().await.unwrap(), Release::Released { others: Some(true) }));
        within("the second one is told", SOON, second.changed()).await;
        granted(&mut second).await;
        second.release().await.unwrap();
        assert_eq!(raw.keys().await.len(), 1, "the token");

        // A waiter that is cancelled.
        let guard = a.lock("n").build().unwrap().acquire().await.unwrap();
        let lock = b.lock("n").build().unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until("it has a place", async || beside(&mut raw, 'o').await.is_some()).await;
        waiting.abort();
        until("it has none", async || beside(&mut raw, 'o').await.is_none()).await;
        assert_eq!(beside(&mut raw, 'a').await, None);
        assert_eq!(guard.release().await, Ending::Released);
    });
}

// Proves: redis-fair
pub(crate) fn any_number_of_dead_waiters_costs_one_grace() {
    run(async {
        for number in [1, 10, 100] {
            let server = Server::start(&[]);
            let (mut raw, client) = (server.raw().await, server.client(SHORT).await);
            let mut holder = claim(&client, "n", 60_000);
            granted(&mut holder).await;
            queued(&mut claim(&client, "n", 60_000)).await;
            dead_waiters(&mut raw, number).await;
            let waits = server.client(SHORT).await;
            let lock = waits.lock("n").build().unwrap();
            let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
            let order = beside(&mut raw, 'o').await.unwrap();
            until("it is behind them", async || raw.ask::<u32>(&["ZCARD", &order]).await == number + 1).await;
            holder.release().await.unwrap();
            let began = Instant::now();
            let guard = within("it is served", SOON, waiting).await.unwrap();
            let took = began.elapsed();
            println!("{number} dead waiters: {took:?} of {GRACE:?}");
            assert_in_time!(took <= GRACE, "{number} dead waiters cost {took:?}");
            assert_eq!(guard.release().await, Ending::Released);
        }
    });
}

pub(crate) fn a_waiter_that_asks_keeps_its_place() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client(SHORT).await;
        let mut holder = claim(&client, "n", 60_000);
        granted(&mut holder).await;
        let (mut first, mut second) = (claim(&client, "n", 60_000), claim(&client, "n", 60_000));
        let began = Instant::now();
        while began.elapsed() < GRACE * 2 {
            // The order of the first round is the order of both.
            let look = queued(&mut first).await;
            queued(&mut second).await;
            assert!(look <= GRACE / 4, "{look:?}");
            tokio::time::sleep(look).await;
        }
        holder.release().await.unwrap();
        queued(&mut second).await;
        granted(&mut first).await;
    });
}

pub(crate) fn dead_waiters_queue_positions_end_after_the_grace() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(SHORT).await);
        granted(&mut claim(&client, "n", 60_000)).await;
        queued(&mut claim(&client, "n", 60_000)).await;
        for letter in ['o', 'a'] {
            let key = beside(&mut raw, letter).await.unwrap();
            let left: u64 = raw.ask(&["PTTL", &key]).await;
            assert!((1..=1000).contains(&left), "{key}: {left}");
        }
        // A client with a shorter grace does not shorten what another one relies on.
        let long = server.client(FAIR).await;
        queued(&mut claim(&long, "n", 60_000)).await;
        queued(&mut claim(&client, "n", 60_000)).await;
        let key = beside(&mut raw, 'a').await.unwrap();
        assert!(raw.ask::<u64>(&["PTTL", &key]).await > 50_000);
    });
}

// Proves: redis-fair
pub(crate) fn only_the_first_waiter_is_woken() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let mut holder = claim(&server.client(FAIR).await, "n", 60_000);
        granted(&mut holder).await;
        let clients = [server.client(FAIR).await, server.client(FAIR).await, server.client(FAIR).await];
        let mut waiters = Vec::new();
        for client in &clients {
            let mut waiter = claim(client, "n", 60_000);
            queued(&mut waiter).await;
            waiter.listen().await.unwrap();
            waiters.push(waiter);
        }
        let calls = raw.calls("evalsha").await;
        holder.release().await.unwrap();
        let mut waiters = waiters.into_iter();
        let mut first = waiters.next().unwrap();
        within("the first one is told", SOON, first.changed()).await;
        granted(&mut first).await;
        assert_eq!(raw.calls("evalsha").await, calls + 2, "a release and an attempt");
        let mut second = waiters.next().unwrap();
        first.release().await.unwrap();
        within("the second one is told", SOON, second.changed()).await;
        granted(&mut second).await;
        // The third one has had two messages by now, and none was for it.
        let mut third = waiters.next().unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(50), third.changed()).await.is_err());
    });
}

pub(crate) fn an_own_layout_client_is_excluded_but_overtakes_waiters() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let (fair, own) = (server.client(FAIR).await, server.client("").await);
        let mut holder = claim(&fair, "n", 20_000);
        granted(&mut holder).await;
        assert!(matches!(claim(&own, "n", 20_000).attempt().await.unwrap(), Attempt::Busy(_)));
        let mut waiter = claim(&fair, "n", 20_000);
        queued(&mut waiter).await;
        holder.release().await.unwrap();
        let mut passes = claim(&own, "n", 20_000);
        granted(&mut passes).await;
        queued(&mut waiter).await;
        // Its release names no client: each waiter looks.
        waiter.listen().await.unwrap();
        passes.release().await.unwrap();
        within("it is told", SOON, waiter.changed()).await;
        granted(&mut waiter).await;
        assert_eq!(raw.ask::<Option<String>>(&["SET", "n", "theirs", "NX", "PX", "5000"]).await, None);
    });
}
