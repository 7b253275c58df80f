//! Ensembles of three servers that are cut off from each other, stand still, and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Direction, Fault, Proxy};
use lock_core::driver::{Queueing, Release};
use lock_core::{Client, Effect, ErrorKind, Guard};
use lock_test_servers::{Absence, Cluster, Network, Owned, Settings, ZooKeeper};
use lock_zk::zookeeper_client::EventType;

use crate::common;
use crate::server::{
    LONG, PATIENCE, blocking, children, claim, claim_with, granted, open, run_or_not, until, within,
};
use lock_conformance::timing::{released, still_held, void};

const TICK: Duration = Duration::from_millis(200);
const TTL: Duration = Duration::from_secs(2);
/// The longest time that an election may take on a busy machine.
const FAILOVER: Duration = Duration::from_secs(15);

fn settings() -> Settings {
    Settings { args: vec![format!("tickTime={}", TICK.as_millis())], ..Settings::default() }
}

async fn ensemble() -> Result<Arc<Cluster>, String> {
    blocking(|| ZooKeeper::ensemble(&settings(), None).map(Arc::new)).await.map_err(Absence::reason)
}

/// Returns a URL of these members alone.
fn url(members: &[&Owned]) -> String {
    let hosts: Vec<String> = members.iter().map(|member| member.address()).collect();
    format!("zk://{}?tick={}ms", hosts.join(","), TICK.as_millis())
}

async fn leader(ensemble: &Arc<Cluster>) -> usize {
    let ensemble = ensemble.clone();
    blocking(move || ensemble.leader().expect("one leads")).await
}

/// Waits until the successor is granted the lock. Returns whether the guard still said at that moment that it is held,
/// and the successor's guard.
async fn hand_over(guard: Arc<Guard>, successor: Client) -> (bool, Guard) {
    let lock = successor.lock(guard.name().as_str()).ttl(TTL).build().unwrap();
    loop {
        match lock.acquire().await {
            Ok(next) => return (guard.is_held(), next),
            Err(e) => assert!(e.is_transient(), "{e:?}"),
        }
    }
}

// Proves: zk-failover, quorum-split, majority-silent
pub(crate) fn a_follower_without_leader_costs_no_exclusion() -> Result<(), String> {
    run_or_not(async {
        let network = blocking(|| Network::of(3)).await.map_err(Absence::reason)?;
        let ensemble = blocking({
            let hosts: Vec<_> = network.hosts().to_vec();
            let _ = &hosts;
            move || {
                ZooKeeper::ensemble(&settings(), Some(&network)).map(|ensemble| (network, Arc::new(ensemble)))
            }
        });
        let (network, ensemble) = ensemble.await.map_err(Absence::reason)?;
        let leads = leader(&ensemble).await;
        let cut = (leads + 1) % 3;
        let others: Vec<&Owned> = ensemble
            .members()
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != cut)
            .map(|(_, member)| member)
            .collect();
        let (holder, successor) = (open(&url(&[&ensemble.members()[cut]])).await, open(&url(&others)).await);
        for _ in 0..2 {
            let guard = Arc::new(holder.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap());
            tokio::time::sleep(TTL).await;
            still_held(&guard);
            network.hosts()[cut].cut_off().unwrap();
            let asked = Instant::now();
            let (overlap, next) = hand_over(guard.clone(), successor.clone()).await;
            assert!(!overlap, "two holders, {:?} after the cut", asked.elapsed());
            assert!(next.token() > guard.token());
            network.hosts()[cut].reconnect().unwrap();
            released(next).await;
            drop(guard);
            let whole = ensemble.clone();
            blocking(move || whole.become_whole().unwrap()).await;
        }
        Ok(())
    })
}

// Proves: server-stands-still
/// The leader stands still for about as long as sessions last. When it goes on, it answers heartbeats, and ends
/// sessions right after that.
pub(crate) fn a_leader_that_stands_still_costs_no_exclusion() -> Result<(), String> {
    run_or_not(async {
        let ensemble = ensemble().await?;
        let ended = ended_sessions(&ensemble).await?;
        for stopped in [TTL * 7 / 8, TTL, TTL * 9 / 8] {
            let leads = leader(&ensemble).await;
            let followers: Vec<&Owned> = ensemble
                .members()
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != leads)
                .map(|(_, member)| member)
                .collect();
            let followers = url(&followers);
            let raw = common::raw_in_locks(&ensemble.members()[(leads + 1) % 3].address()).await;
            let mut watched = Vec::new();
            for n in 0..16_u32 {
                let client = open(&followers).await;
                let name = format!("{n}-{}", stopped.as_millis());
                let guard = client.lock(name.as_str()).ttl(TTL).build().unwrap().acquire().await.unwrap();
                let (directory, gone) = (format!("/{name}"), Arc::new(AtomicBool::new(false)));
                // This client may be connected to a server that lags.
                raw.sync("/").await.unwrap();
                let node = children(&raw, &directory).await.remove(0);
                let (_, _, watcher) = raw.get_and_watch_data(&format!("{directory}/{node}")).await.unwrap();
                watched.push((client, guard, gone.clone()));
                tokio::spawn(async move {
                    // If the session of the watch ends instead, nothing is known of the node.
                    if watcher.changed().await.event_type == EventType::NodeDeleted {
                        gone.store(true, Ordering::SeqCst);
                    }
                });
                tokio::time::sleep(TICK / 3).await;
            }
            tokio::time::sleep(TTL / 2).await;
            let paused = ensemble.clone();
            blocking(move || {
                paused.members()[leads].pause().unwrap();
                std::thread::sleep(stopped);
                paused.members()[leads].resume().unwrap();
            })
            .await;
            let end = Instant::now() + TTL * 2;
            while Instant::now() < end {
                for (n, (_, guard, gone)) in watched.iter().enumerate() {
                    // Read in this order: a lock that ends in between is no overlap.
                    let was_gone = gone.load(Ordering::SeqCst);
                    assert!(!(was_gone && guard.is_held()), "{n}: the node is gone, but the guard is held");
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let whole = ensemble.clone();
            blocking(move || whole.become_whole().unwrap()).await;
        }
        let ended = ended_sessions(&ensemble).await? - ended;
        println!("{ended} sessions were ended");
        // Holders that gave up first have deleted their nodes themselves.
        if ended == 0 {
            void("the leader stood still and ended no session");
        }
        Ok(())
    })
}

/// Returns how many sessions the servers have ended because they heard nothing of them. Servers count that since 3.6.
async fn ended_sessions(ensemble: &Cluster) -> Result<u64, String> {
    let mut ended = 0;
    for member in ensemble.members() {
        let counted = common::word(&member.address(), "mntr").await;
        let number = counted.lines().find_map(|line| line.strip_prefix("zk_stale_sessions_expired"));
        let number = number.ok_or("this ZooKeeper does not count the sessions that it ends")?;
        ended += number.trim().parse::<u64>().expect("a number");
    }
    Ok(ended)
}

// Proves: zk-failover, B32, another-server, elections
pub(crate) fn a_lost_leader_costs_no_lock() -> Result<(), String> {
    run_or_not(async {
        let ensemble = ensemble().await?;
        let all: Vec<&Owned> = ensemble.members().iter().collect();
        let (holder, waiter) = (open(&url(&all)).await, open(&url(&all)).await);
        let guard = holder.lock("a").ttl(LONG).build().unwrap().acquire().await.unwrap();
        let lock = waiter.lock("a").ttl(LONG).build().unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        for _ in 0..2 {
            let (leads, hurt) = (leader(&ensemble).await, ensemble.clone());
            blocking(move || {
                hurt.members()[leads].kill().unwrap();
                hurt.members()[leads].restart(Data::Kept).unwrap();
                hurt.become_whole().unwrap();
            })
            .await;
            let asked = Instant::now();
            while guard.renew(LONG).await.is_err() {
                still_held(&guard);
                assert_in_time!(asked.elapsed() < FAILOVER, "it is not renewed after a failover");
            }
            assert!(!waiting.is_finished());
        }
        let token = guard.token();
        released(guard).await;
        let next = within("the waiter has it", FAILOVER, waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        Ok(())
    })
}

// Proves: request-late, another-server
/// The attempt hangs on its way to one server, and its session goes on at another.
pub(crate) fn no_other_server_accepts_a_late_attempt() -> Result<(), String> {
    run_or_not(async {
        let ensemble = ensemble().await?;
        let members: Vec<String> = ensemble.members().iter().map(Owned::address).collect();
        let proxy = Proxy::start_all(&members).await.unwrap();
        let raw = common::raw_in_locks(&members[0]).await;
        let hosts: Vec<String> = proxy.addresses().iter().map(ToString::to_string).collect();
        let url = format!("zk://{}?tick={}ms", hosts.join(","), TICK.as_millis());
        let client = open(&url).await;
        // Keeps the session in use. An idle session is closed, and the next attempt would use a new connection, which
        // the proxy does not hold.
        let mut stays = claim(&client, "another", LONG, Queueing::Queued);
        granted(&mut stays).await;
        let mut first = claim(&client, "a", LONG, Queueing::Queued);
        granted(&mut first).await;
        first.release().await.unwrap();
        for _ in 0..4 {
            let held = proxy.count(Fault::Held(Direction::ToServer));
            proxy.hold_open_ones(Direction::ToServer);
            let mut late = claim_with(&client, "a", LONG, Queueing::Queued, PATIENCE / 3);
            let error = late.attempt().await.expect_err("no answer came");
            assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
            until("it is on its way", TTL, || async { proxy.count(Fault::Held(Direction::ToServer)) > held })
                .await;
            assert_eq!(late.release().await.unwrap(), Release::NotHeld);
            proxy.deliver_late(Direction::ToServer).await;
            let end = Instant::now() + Duration::from_millis(800);
            while Instant::now() < end {
                raw.sync("/").await.unwrap();
                assert!(children(&raw, "/a").await.is_empty(), "the attempt made a node after its release");
            }
        }
        Ok(())
    })
}
