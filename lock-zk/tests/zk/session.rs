//! Sessions: how they are kept, and what happens to locks when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Cut, Direction, Fault, Proxy};
use lock_core::driver::{Attempt, Queueing, Release, Renewal};
use lock_core::{Ending, ErrorKind, LossReason};

use crate::common::{self, end_session};
use crate::server::{
    LONG, Server, TTL, busy, children, claim, claim_with, granted, holders_session, open, run, until, within,
};
use lock_conformance::timing::{released, still_held};

async fn zxid(server: &Server) -> u64 {
    let answer = common::word(&server.0.address(), "srvr").await;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap();
    u64::from_str_radix(zxid, 16).unwrap()
}

/// Returns how many sessions have a connection.
async fn connections(server: &Server) -> usize {
    common::word(&server.0.address(), "cons").await.lines().filter(|line| line.contains("sid=0x")).count()
}

pub(crate) fn one_heartbeat_serves_all_locks_of_a_session() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut held = Vec::new();
        for n in 0..30 {
            let lock = client.lock(format!("lock {n}")).ttl(TTL).build().unwrap();
            held.push(lock.acquire().await.unwrap());
        }
        let (before, began) = (zxid(&server).await, Instant::now());
        tokio::time::sleep(TTL * 2).await;
        let (writes, took) = (zxid(&server).await - before, began.elapsed());
        held.iter().for_each(|guard| still_held(guard));
        // Heartbeats are due ten times in a timeout. A renewal may ask for an earlier one, but at most one a tick.
        let due = took.as_millis() / (TTL.as_millis() / 10);
        assert_in_time!(
            (u128::from(writes) + 1 >= due * 3 / 4),
            "{writes} writes in {took:?}: a heartbeat is one write"
        );
        let most = took.as_millis() / 100 + 2;
        assert!(u128::from(writes) <= most, "{writes} writes in {took:?}: heartbeats are a tick apart");
    })
}

pub(crate) fn each_ttls_session_is_closed_when_idle() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        // Of the connections that opening has made, one is left: the one for calls without a claim.
        let idle = 1;
        until("it is open", TTL, || async { connections(&server).await == idle }).await;
        let mut claims = Vec::new();
        for (n, ttl) in [TTL, TTL * 2, TTL, TTL * 2].into_iter().enumerate() {
            let mut holder = claim(&client, &n.to_string(), ttl, Queueing::No);
            granted(&mut holder).await;
            claims.push(holder);
        }
        until("there are two more", TTL, || async { connections(&server).await == idle + 2 }).await;
        for claim in &mut claims {
            assert!(matches!(claim.release().await.unwrap(), Release::Released { .. }));
        }
        until("they are closed", TTL * 4, || async { connections(&server).await == idle }).await;
        drop(client);
        until("the client is gone", TTL, || async { connections(&server).await < idle }).await;
    })
}

// Proves: flushed-or-killed
pub(crate) fn a_holder_whose_session_is_ended_is_told() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let session = holders_session(&raw, "/a").await;
        let ended = Instant::now();
        end_session(&server.0.address(), session).await;
        assert_eq!(guard.lost().await, LossReason::Session);
        assert_in_time!(
            ended.elapsed() < Duration::from_secs(2),
            "told after {:?}: the server says it at once",
            ended.elapsed()
        );
        assert_eq!(guard.release().await, Ending::Expired);
        let next = lock.acquire().await.unwrap();
        assert_ne!(holders_session(&raw, "/a").await, session);
        released(next).await;
    })
}

// Proves: flushed-or-killed
pub(crate) fn a_waiter_survives_its_sessions_end_in_another() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (a, b, raw) = (server.client().await, server.client().await, server.raw().await);
        let guard = a.lock("a").ttl(LONG).build().unwrap().acquire().await.unwrap();
        let lock = b.lock("a").ttl(TTL).build().unwrap();
        let waiter = tokio::spawn(async move { lock.acquire().await });
        until("it waits", TTL, || async { children(&raw, "/a").await.len() == 2 }).await;
        let node = children(&raw, "/a").await.remove(1);
        let session = raw.get_data(&format!("/a/{node}")).await.unwrap().1.ephemeral_owner;
        end_session(&server.0.address(), session).await;
        until("it waits again", TTL, || async {
            children(&raw, "/a").await.get(1).is_some_and(|again| *again != node)
        })
        .await;
        assert!(!waiter.is_finished());
        released(guard).await;
        let guard = within("the waiter has it", TTL, waiter).await.unwrap().unwrap();
        released(guard).await;
    })
}

/// Answers of the server don't arrive for longer than the timeout. The server hears of the attempts to resume the
/// session, and must still be able to end it.
pub(crate) fn an_uncertain_session_takes_no_claims() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let (client, other) = (open(&server.through(proxy.address())).await, server.client().await);
        let raw = server.raw().await;
        let mut holder = claim(&client, "a", TTL, Queueing::Queued);
        granted(&mut holder).await;
        let mut waiter = claim(&client, "b", TTL, Queueing::Queued);
        let mut first = claim(&other, "b", LONG, Queueing::Queued);
        granted(&mut first).await;
        assert!(busy(&mut waiter).await.queued);
        let session = holders_session(&raw, "/a").await;
        proxy.hold(Direction::ToClient);
        let dead = Instant::now();
        until("the server ends the session", TTL * 3, || async { children(&raw, "/a").await.is_empty() })
            .await;
        assert!(dead.elapsed() > TTL / 2, "{:?}", dead.elapsed());
        // The session has ended, but the client does not know that: its node may still exist.
        let error = holder.release().await.expect_err("only the server can say that it ended");
        assert!(error.may_have_taken_effect(), "{error:?}");
        proxy.discard(Direction::ToClient);
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Session));
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld);
        // The waiter waits in another session, and not behind a node that is gone.
        let healed = Instant::now();
        while waiter.attempt().await.is_err() {
            assert_in_time!(healed.elapsed() < TTL * 4, "it does not wait again");
        }
        let node = children(&raw, "/b").await.remove(1);
        assert_ne!(raw.get_data(&format!("/b/{node}")).await.unwrap().1.ephemeral_owner, session);
        first.release().await.unwrap();
        granted(&mut waiter).await;
    })
}

/// The outage is longer than any one attempt to connect, and shorter than the session.
pub(crate) fn an_outage_is_not_the_servers_word() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let (client, raw) = (open(&server.through(proxy.address())).await, server.raw().await);
        let mut holder = claim(&client, "a", TTL, Queueing::Queued);
        granted(&mut holder).await;
        let session = holders_session(&raw, "/a").await;
        let asked = Instant::now();
        let Renewal::Held { valid_for, .. } = holder.renew(TTL).await.unwrap() else { panic!("it is held") };
        let ends = asked + valid_for;
        proxy.refuse();
        proxy.cut(Cut::Reset);
        until("it was refused", TTL, || async { proxy.count(Fault::Refused) > 0 }).await;
        tokio::time::sleep(TTL / 2).await;
        proxy.accept();
        if let Renewal::Lost(cause) = holder.renew(TTL).await.unwrap() {
            assert_in_time!(Instant::now() < ends, "the machine stood still until the session ended");
            panic!("lost by {cause:?} after an outage");
        }
        assert_eq!(holders_session(&raw, "/a").await, session);
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
    })
}

// Proves: connections-cut
/// The server does not report what was watched on the old connection.
pub(crate) fn a_waiter_looks_again_on_the_next_connection() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let (client, other) = (open(&server.through(proxy.address())).await, server.client().await);
        let mut holder = claim(&other, "a", LONG, Queueing::Queued);
        granted(&mut holder).await;
        let mut waiter = claim(&client, "a", LONG, Queueing::Queued);
        assert!(busy(&mut waiter).await.queued);
        waiter.listen().await.unwrap();
        assert!(busy(&mut waiter).await.queued);
        for _ in 0..2 {
            proxy.cut(Cut::Reset);
            within("it is told of the cut", TTL, waiter.changed()).await;
            assert!(busy(&mut waiter).await.queued);
        }
        holder.release().await.unwrap();
        within("it is told of the release", TTL, waiter.changed()).await;
        granted(&mut waiter).await;
    })
}

/// The session lives, and the lock is gone: a proof of the session is no proof of the lock. What was proven while the
/// node existed may be told until the server has reported that the node went. What was proven later is never told.
pub(crate) fn a_renewal_asks_for_the_node() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let (client, raw) = (open(&server.through(proxy.address())).await, server.raw().await);
        let mut holder = claim(&client, "a", LONG, Queueing::No);
        granted(&mut holder).await;
        assert!(matches!(holder.renew(LONG).await.unwrap(), Renewal::Held { .. }));
        let node = children(&raw, "/a").await.remove(0);
        proxy.delay(Direction::ToClient, Duration::from_millis(50));
        raw.delete(&format!("/a/{node}"), None).await.unwrap();
        let last = Instant::now() + LONG;
        let cause = loop {
            let asked = Instant::now();
            match holder.renew(LONG).await.unwrap() {
                Renewal::Held { valid_for, .. } => {
                    assert!(asked + valid_for <= last, "proven by the session alone");
                }
                Renewal::Lost(cause) => break cause,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(cause, LossReason::Gone);
        let mut next = claim(&client, "a", LONG, Queueing::No);
        granted(&mut next).await;
        assert_eq!(holder.renew(LONG).await.unwrap(), Renewal::Lost(LossReason::Taken));
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld);
        assert!(matches!(next.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    })
}

/// The session's tasks have ended with their runtime, and its connection shows no sign of that. A call on it ends in
/// time, and keeps no thread busy until then.
pub(crate) fn what_keeps_a_session_may_be_gone() -> Result<(), String> {
    let server = Server::start();
    let patience = Duration::from_millis(600);
    let gone = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut holder = gone.block_on(async {
        let mut holder = claim_with(&server.client().await, "a", LONG, Queueing::Queued, patience);
        granted(&mut holder).await;
        holder
    });
    gone.shutdown_timeout(Duration::from_secs(2));
    run(async move {
        let asked = Instant::now();
        for _ in 0..2 {
            let error = holder.renew(LONG).await.expect_err("nothing answers");
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        }
        let error = holder.release().await.expect_err("nothing answers");
        assert!(error.may_have_taken_effect(), "{error:?}");
        assert_in_time!(asked.elapsed() < patience * 4, "{:?}", asked.elapsed());
    })
}

// Proves: network-slow
/// Heartbeats take longer than a connection may be silent, and prove less than half of the timeout.
pub(crate) fn a_connection_that_is_slow_costs_no_lock() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        let ttl = TTL * 2;
        let guard = client.lock("a").ttl(ttl).build().unwrap().acquire().await.unwrap();
        let certain = guard.renew(ttl).await.unwrap();
        assert_in_time!(certain > ttl / 2, "{certain:?} is certain at the beginning");
        proxy.delay(Direction::ToClient, ttl * 13 / 50);
        let (guard, answered) = (Arc::new(guard), Arc::new(AtomicUsize::new(0)));
        for n in 0..6 {
            let mut other = claim(&client, "a", ttl, Queueing::No);
            let (guard, answered) = (guard.clone(), answered.clone());
            tokio::spawn(async move {
                tokio::time::sleep(ttl * n / 20).await;
                loop {
                    match other.attempt().await {
                        Ok(Attempt::Busy(_)) => _ = answered.fetch_add(1, Ordering::SeqCst),
                        Ok(Attempt::Granted(_)) => {
                            assert!(!guard.is_held(), "two holders");
                            return;
                        }
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
            });
        }
        let slow = Instant::now();
        while slow.elapsed() < ttl * 3 {
            guard.check().unwrap_or_else(|lost| panic!("after {:?}: {lost}", slow.elapsed()));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(answered.load(Ordering::SeqCst) >= 6, "other claims are answered all the time");
    })
}
