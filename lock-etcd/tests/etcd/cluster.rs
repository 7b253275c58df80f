//! Clusters of three that lose their leader, or a member.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::assert_in_time;
use lock_conformance::contention::{Contenders, KeptLocks};
use lock_core::driver::{Queueing, Release, Renewal};
use lock_core::{Client, ErrorKind, LossReason, Options};
use lock_etcd::etcd_client;
use lock_test_servers::{Absence, Etcd, Network, Settings};

use crate::server::{
    LONG, blocking, busy, claim, claim_with, granted, open, queue, raw, run, until, wait_for,
};
use lock_conformance::timing::{Answered, released, still_held};

/// A cluster, and its network if its members have hosts of their own.
#[derive(Clone)]
pub(crate) struct Cluster(Arc<lock_test_servers::Cluster>, Option<Arc<Network>>);

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        let start = || Etcd::cluster(&Settings::default(), None).expect("one was started before");
        Cluster(Arc::new(blocking(start).await), None)
    }

    /// Starts a cluster whose members have hosts of their own. An error says why this machine cannot do that.
    fn start_apart(args: &[&str]) -> Result<Cluster, String> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let settings = Settings { args, ..Settings::default() };
        let started = Network::of(3).and_then(|network| {
            let cluster = Etcd::cluster(&settings, Some(&network))?;
            Ok(Cluster(Arc::new(cluster), Some(Arc::new(network))))
        });
        started.map_err(Absence::reason)
    }

    pub(crate) async fn client(&self) -> Client {
        lock_etcd::connect_with(&self.0.url(), Options::default()).answered().await
    }

    pub(crate) async fn raw(&self, member: usize) -> etcd_client::Client {
        raw(&self.0.members()[member].address()).await
    }

    pub(crate) async fn leader(&self) -> usize {
        let cluster = self.0.clone();
        blocking(move || cluster.leader().expect("it has one")).await
    }

    /// Opens a client that knows one member only.
    async fn client_of(&self, member: usize) -> Client {
        open(&format!("etcd://{}?election=500ms", self.0.members()[member].address())).await
    }
}

/// Makes another member the leader.
pub(crate) async fn leader_moves(cluster: &Cluster) {
    let (asked, limit) = (Instant::now(), Duration::from_secs(20));
    let first = cluster.leader().await;
    loop {
        let before = cluster.leader().await;
        if before != first {
            return;
        }
        let next = cluster.raw((before + 1) % 3).await.status().await.unwrap();
        let next = next.header().unwrap().member_id();
        // The next leader may be too slow, and leaders also change by themselves, so only the outcome counts.
        let mut leader = cluster.raw(before).await;
        let moved = tokio::time::timeout(Duration::from_secs(2), leader.move_leader(next)).await;
        assert_in_time!(asked.elapsed() < limit, "the leader has not moved: {moved:?}");
    }
}

// Proves: quorum-split, majority-silent
/// A leader that is cut off from its followers still answers keep-alives, for as long as one election timeout.
pub(crate) fn a_keep_alive_without_a_majority_does_not_count() -> Result<(), String> {
    // The election timeout is so long here that the whole lease lies within it.
    let cluster = Cluster::start_apart(&["--heartbeat-interval", "100", "--election-timeout", "4000"])?;
    run(async {
        let leader = cluster.leader().await;
        let network = cluster.1.clone().unwrap();
        let client = cluster.client_of(leader).await;
        // The shortest ttl that such servers grant: one and a half elections.
        let ttl = Duration::from_secs(6);
        let mut raw = cluster.raw(leader).await;
        let lease = raw.lease_grant(60, None).await.unwrap().id();
        let guard = client.lock("a").ttl(ttl).build().unwrap().acquire().await.unwrap();
        tokio::time::sleep(ttl / 2).await;
        still_held(&guard);
        network.hosts()[leader].cut_off().unwrap();
        // Requests that were under way have been answered by now, or never will be.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let ends = Instant::now() + guard.valid_for();
        let (mut keeper, mut answers) = raw.lease_keep_alive(lease).await.unwrap();
        keeper.keep_alive().await.unwrap();
        let answer = answers.message().await.unwrap().unwrap();
        assert!(answer.ttl() > 0, "it is answered all the same");
        let cause = guard.lost().await;
        let late = Instant::now().saturating_duration_since(ends);
        assert_eq!(cause, LossReason::Expired);
        assert_in_time!(
            late < Duration::from_millis(100),
            "it went on for {late:?} by keep-alives that prove nothing"
        );
    })
}

// Proves: elections
pub(crate) fn a_new_term_moves_everything_to_a_fresh_lease() -> Result<(), String> {
    run(async {
        let cluster = Cluster::start().await;
        let (client, other, mut raw) = (cluster.client().await, cluster.client().await, cluster.raw(0).await);
        // Heartbeats are seconds apart, so the answer to another request shows the new term.
        let ttl = Duration::from_secs(9);
        let (mut holder, mut waiter) = (claim(&client, "a", ttl), claim(&other, "a", ttl));
        let grant = granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        busy(&mut waiter).await;
        let before = queue(&mut raw, "a").await;
        leader_moves(&cluster).await;
        until("both were moved", ttl, || async {
            let mut raw = raw.clone();
            let now = queue(&mut raw, "a").await;
            now.iter().zip(&before).all(|(now, before)| now.lease() != before.lease())
        })
        .await;
        let after = queue(&mut raw, "a").await;
        assert_eq!(after.len(), before.len());
        for (after, before) in after.iter().zip(&before) {
            assert_eq!(
                (after.key(), after.create_revision(), after.value()),
                (before.key(), before.create_revision(), before.value())
            );
            until("the old lease is revoked", Duration::from_secs(2), || async {
                raw.clone().lease_time_to_live(before.lease(), None).await.unwrap().ttl() < 0
            })
            .await;
        }
        for key in queue(&mut raw, "a").await {
            assert!(raw.lease_time_to_live(key.lease(), None).await.unwrap().ttl() > 0);
        }
        assert!(matches!(holder.renew(ttl).await.unwrap(), Renewal::Held { .. }));
        assert_eq!(granted(&mut holder).await.token, grant.token);
        let waiting = tokio::spawn(async move { wait_for(&mut waiter).await });
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        waiting.await.unwrap();
    })
}

/// The keys need more than one request to move.
pub(crate) fn one_lost_key_stops_no_batched_move() -> Result<(), String> {
    run(async {
        let cluster = Cluster::start().await;
        let (client, mut raw) = (cluster.client().await, cluster.raw(0).await);
        let ttl = Duration::from_secs(9);
        let mut claims = Vec::new();
        for n in 0..100 {
            let mut claim = claim(&client, &format!("name {n}"), ttl);
            granted(&mut claim).await;
            claims.push(claim);
        }
        let old = queue(&mut raw, "name 0").await[0].lease();
        let lost = queue(&mut raw, "name 7").await[0].key().to_vec();
        raw.delete(lost, None).await.unwrap();
        leader_moves(&cluster).await;
        until("they were moved", ttl, || async {
            let mut raw = raw.clone();
            queue(&mut raw, "name 99").await[0].lease() != old
        })
        .await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for (n, claim) in claims.iter_mut().enumerate() {
            let renewed = claim.renew(ttl).await.unwrap();
            match n {
                7 => assert_eq!(renewed, Renewal::Lost(LossReason::Gone)),
                _ => assert!(matches!(renewed, Renewal::Held { .. }), "{n}: {renewed:?}"),
            }
        }
    })
}

/// Clients take turns while `hurt` is done to the cluster `times` times. A lock that is held throughout must not be
/// lost.
async fn under_load<F: Future<Output = ()>>(cluster: &Cluster, times: usize, hurt: impl Fn() -> F) {
    let mut contenders = Contenders::new(Duration::from_secs(5), Duration::from_secs(30));
    for n in 0..6 {
        contenders.take_turns(&cluster.client().await, &format!("name {}", n % 2));
    }
    let (holder, other) = (cluster.client().await, cluster.client().await);
    let long = holder.lock("held throughout").ttl(Duration::from_secs(10)).build().unwrap();
    let long = Arc::new(long.acquire().await.unwrap());
    contenders.contest(&other, &long);
    for time in 0..times {
        let kept = KeptLocks::begin(cluster.client().await, &format!("time {time}")).await;
        hurt().await;
        contenders.go_on(10, Duration::from_secs(20)).await;
        kept.is_kept(&other).await;
        still_held(&long);
    }
    contenders.end().await;
    released(Arc::into_inner(long).expect("its contender has ended")).await;
}

// Proves: B32, server-stands-still, elections
/// Attempts are under way while their session moves to another lease.
pub(crate) fn leaders_that_change_under_load_cost_no_exclusion() -> Result<(), String> {
    run(async {
        let cluster = Cluster::start().await;
        under_load(&cluster, 8, || leader_moves(&cluster)).await;
    })
}

// Proves: another-server
pub(crate) fn a_killed_member_costs_no_lock() -> Result<(), String> {
    run(async {
        let cluster = Cluster::start().await;
        // Kills the leader twice, and once the member that all clients ask first.
        let next = AtomicUsize::new(0);
        under_load(&cluster, 3, || async {
            let gone = match next.fetch_add(1, Ordering::SeqCst) {
                1 => 0,
                _ => cluster.leader().await,
            };
            let hurt = cluster.0.clone();
            blocking(move || {
                hurt.members()[gone].kill().expect("it runs");
                std::thread::sleep(Duration::from_millis(1500));
                hurt.members()[gone].restart(Data::Kept).expect("it starts again");
                hurt.become_whole().expect("it finds its cluster again");
            })
            .await;
        })
        .await;
    })
}

// Proves: network-dead, another-server, quorum-split
/// The member answers that it has no leader, or does not answer. Its old data says nothing about held locks.
pub(crate) fn a_member_that_is_cut_off_is_left() -> Result<(), String> {
    let cluster = Cluster::start_apart(&[])?;
    run(async {
        let network = cluster.1.clone().unwrap();
        let (client, stays) = (cluster.client().await, cluster.client_of(0).await);
        let ttl = Duration::from_secs(6);
        let guard = client.lock("a").ttl(ttl).build().unwrap().acquire().await.unwrap();
        // It has a session already, so that only the lock can be refused.
        granted(&mut claim(&stays, "its own", LONG)).await;
        // The member that clients ask first.
        network.hosts()[0].cut_off().unwrap();
        let (mut refused, end) = (0, Instant::now() + ttl * 2);
        while Instant::now() < end {
            for name in ["a", "free"] {
                let waits = if refused % 2 == 0 { Queueing::No } else { Queueing::Queued };
                let mut claim = claim_with(&stays, name, LONG, Duration::from_millis(500), waits);
                let answer = claim.attempt().await;
                let error = answer.expect_err("a member without a majority knows nothing of a lock");
                assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{name}: {error:?}");
            }
            refused += 1;
            still_held(&guard);
        }
        assert!(refused > 0);
        released(guard).await;
        network.hosts()[0].reconnect().unwrap();
        let mut again = claim(&client, "a", LONG);
        granted(&mut again).await;
    })
}
