//! Wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Cut, Proxy};
use lock_conformance::timing::{released, void};
use lock_core::Client;
use lock_core::driver::{Claim, Renewal};
use lock_etcd::etcd_client::{self, CompactionOptions, PutOptions};

use crate::grant::transactions;
use crate::server::{
    LONG, SOON, Server, busy, claim, granted, is_told, open, queue, run, until, wait_for, within,
};

async fn watchers(server: &Server) -> u64 {
    server.metric("etcd_debugging_mvcc_watcher_total", "").await
}

async fn listens(claim: &mut Box<dyn Claim>) {
    assert!(busy(claim).await.queued);
    claim.listen().await.unwrap();
    assert!(busy(claim).await.queued);
}

/// A watch from a past revision is told 90 ms late, and while other clients write, every revision is in the past.
pub(crate) fn a_hand_over_is_quick_while_others_write() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = tokio::task::JoinSet::new();
        for n in 0..4 {
            let (mut raw, stop) = (server.raw().await, stop.clone());
            writers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    raw.put(format!("noise {n}"), "x", None).await.unwrap();
                }
            });
        }
        let (client, other) = (server.client().await, server.client().await);
        let mut took = Vec::new();
        for _ in 0..40 {
            let (mut holder, mut waiter) = (claim(&client, "a", LONG), claim(&other, "a", LONG));
            granted(&mut holder).await;
            listens(&mut waiter).await;
            let waiting = tokio::spawn(async move {
                wait_for(&mut waiter).await;
                (Instant::now(), waiter)
            });
            tokio::time::sleep(Duration::from_millis(5)).await;
            holder.release().await.unwrap();
            // Counts from here: the slow part comes after the write.
            let released = Instant::now();
            let (at, mut waiter) = waiting.await.unwrap();
            took.push(at.saturating_duration_since(released));
            waiter.release().await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writers.join_all().await;
        took.sort();
        println!("half of them within {:?}, the worst {:?}", took[20], took[39]);
        assert_in_time!(took[20] < Duration::from_millis(40), "{took:?}");
    })
}

pub(crate) fn each_waiter_has_two_watches_and_leaves_none() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other) = (server.client().await, server.client().await);
        let (mut holder, mut waiter) = (claim(&client, "a", LONG), claim(&other, "a", LONG));
        granted(&mut holder).await;
        until("the holder watches its key", SOON, || async { watchers(&server).await == 1 }).await;
        listens(&mut waiter).await;
        until("the waiter watches twice", SOON, || async { watchers(&server).await == 3 }).await;
        // The same holds on a stream that is open already.
        let mut another = claim(&other, "a", LONG);
        listens(&mut another).await;
        until("each of them", SOON, || async { watchers(&server).await == 5 }).await;
        another.release().await.unwrap();
        until("it has left", SOON, || async { watchers(&server).await == 3 }).await;
        holder.release().await.unwrap();
        granted(&mut waiter).await;
        until("it watches its own now", SOON, || async { watchers(&server).await == 1 }).await;
        waiter.release().await.unwrap();
        until("no watch is left", SOON, || async { watchers(&server).await == 0 }).await;
    })
}

pub(crate) fn only_the_next_in_the_queue_is_woken() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let mut claims = Vec::new();
        for n in 0..5 {
            let mut claim = claim(&client, "a", LONG);
            match n {
                0 => _ = granted(&mut claim).await,
                _ => listens(&mut claim).await,
            }
            claims.push(claim);
        }
        claims[0].release().await.unwrap();
        within("the next one is woken", Duration::from_secs(5), claims[1].changed()).await;
        for claim in &mut claims[2..] {
            is_silent(claim).await;
        }
        // A waiter that gives up wakes the waiter behind it, which then watches another key.
        claims[3].release().await.unwrap();
        within("it is woken", Duration::from_secs(5), claims[4].changed()).await;
        assert!(busy(&mut claims[4]).await.queued);
        granted(&mut claims[1]).await;
        claims[1].release().await.unwrap();
        granted(&mut claims[2]).await;
        claims[2].release().await.unwrap();
        within("it is woken", Duration::from_secs(5), claims[4].changed()).await;
        granted(&mut claims[4]).await;
    })
}

/// As a session does after its heartbeats went to a former leader.
pub(crate) fn a_move_wakes_no_waiter() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, mut raw) = (server.client().await, server.client().await, server.raw().await);
        let (mut holder, mut waiter) = (claim(&client, "a", LONG), claim(&other, "a", LONG));
        granted(&mut holder).await;
        listens(&mut waiter).await;
        let key = queue(&mut raw, "a").await[0].clone();
        let lease = raw.lease_grant(60, None).await.unwrap().id();
        raw.put(key.key(), key.value(), Some(PutOptions::new().with_lease(lease))).await.unwrap();
        is_silent(&mut waiter).await;
        raw.delete(key.key(), None).await.unwrap();
        within("it is woken", Duration::from_secs(2), waiter.changed()).await;
        granted(&mut waiter).await;
    })
}

async fn is_silent(claim: &mut Box<dyn Claim>) {
    let woken = tokio::time::timeout(Duration::from_millis(100), claim.changed()).await;
    assert!(woken.is_err(), "nothing has changed for it");
}

// Proves: flushed-or-killed
/// The revision from which an own key is watched is compacted before the watch is made.
pub(crate) fn a_compaction_costs_no_wake_up() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, mut raw) = (server.client().await, server.client().await, server.raw().await);
        let mut holder = compacted(&server, &client, &mut raw).await;
        let mut waiter = claim(&other, "a", LONG);
        listens(&mut waiter).await;
        compact(&mut raw).await;
        let key = queue(&mut raw, "a").await[0].key().to_vec();
        raw.delete(key, None).await.unwrap();
        is_told(&mut holder, Duration::from_secs(2)).await;
        within("it is woken", Duration::from_secs(2), waiter.changed()).await;
        granted(&mut waiter).await;
    })
}

/// Returns a holder whose watch could not begin at the revision of its key, because that was compacted. The holder was
/// woken for that reason: what happened since is unknown.
async fn compacted(server: &Server, client: &Client, raw: &mut etcd_client::Client) -> Box<dyn Claim> {
    // Waits for the session's first proof, which may also wake the holder. It is the second transaction.
    let mut first = claim(client, "first", LONG);
    granted(&mut first).await;
    until("the session is proven", SOON, || async { transactions(server).await == 2 }).await;
    for _ in 0..20 {
        let mut holder = claim(client, "a", LONG);
        granted(&mut holder).await;
        compact(raw).await;
        // If the watch was made before the compaction, the holder is not woken.
        if tokio::time::timeout(Duration::from_secs(1), holder.changed()).await.is_ok() {
            assert!(matches!(holder.renew(LONG).await.unwrap(), Renewal::Held { .. }));
            return holder;
        }
        holder.release().await.unwrap();
    }
    void("each of 20 watches was there before its beginning was compacted");
}

/// Compacts the server's history to its newest revision, after two more writes.
async fn compact(raw: &mut etcd_client::Client) {
    raw.put("noise", "x", None).await.unwrap();
    let revision = raw.put("noise", "y", None).await.unwrap().header().unwrap().revision();
    raw.compact(revision, Some(CompactionOptions::new().with_physical())).await.unwrap();
}

// Proves: connections-cut
pub(crate) fn a_connection_that_breaks_costs_no_wake_up() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let (client, other) = (server.client().await, open(&server.through(proxy.address())).await);
        let lock = other.lock("a").ttl(LONG).build().unwrap();
        for n in 0..10 {
            let mut holder = claim(&client, "a", LONG);
            granted(&mut holder).await;
            let waiting = tokio::spawn({
                let lock = lock.clone();
                async move { lock.acquire().await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.cut(Cut::Reset);
            // The pause varies: before there is a new connection, while it is made, and after.
            tokio::time::sleep(Duration::from_millis(10 * n)).await;
            holder.release().await.unwrap();
            // Within less time than the core takes to look by itself.
            let guard = within("it has it", Duration::from_secs(2), waiting).await.unwrap();
            released(guard.unwrap()).await;
        }
    })
}
