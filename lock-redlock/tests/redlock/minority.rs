//! A minority of the nodes can do no harm to a lock.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_conformance::Data;
use lock_conformance::assert_in_time;
use lock_conformance::claims::{self, Terms};
use lock_conformance::proxy::{Direction, Proxy};
use lock_conformance::timing::{until, within};
use lock_core::driver::{Finding, Level, Queueing, Release, Revoked, When};
use lock_core::{ErrorKind, LossReason, Options};
use lock_test_servers::Settings;

use super::nodes::Nodes;
use super::{PATIENCE, TTL, five, ms, options, released, run};

// Proves: survives-a-server, redlock-majority, B25, quorum-split, server-stands-still
pub(crate) fn two_of_five_may_be_dead_or_silent() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (a, b) = (nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap());
        let (first, second) = (a.lock("a").ttl(TTL).build().unwrap(), b.lock("a").ttl(TTL).build().unwrap());
        nodes.servers()[1].kill().unwrap();
        nodes.servers()[3].pause().unwrap();
        let mut last = None;
        for _ in 0..5 {
            let guard = first.acquire().await.unwrap();
            assert!(last < Some(guard.token()));
            assert!(second.try_acquire().await.unwrap().is_none());
            guard.renew(TTL).await.unwrap();
            let (token, waiting) = (guard.token(), second.clone());
            let waiter = tokio::spawn(async move { waiting.acquire().await });
            released(guard).await;
            let next = waiter.await.unwrap().unwrap();
            assert!(next.token() > token);
            last = Some(next.token());
            released(next).await;
        }
        nodes.servers()[3].resume().unwrap();
    });
}

// Proves: B25, network-dead, network-slow
/// Each node may take 5 s here, so a client that waited for the two nodes would be late.
pub(crate) fn two_of_five_nodes_may_be_slow_or_silent() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let proxy = Proxy::start_all(&nodes.addresses()[..2]).await.unwrap();
        let direct =
            nodes.addresses()[2..].iter().map(|address| address.parse().unwrap()).collect::<Vec<_>>();
        let hurt = nodes.behind(&[proxy.addresses(), &direct].concat());
        let lock = hurt.open(Options::default()).await.unwrap().lock("a").ttl(TTL).build().unwrap();
        let mut last = None;
        let mut cycle = async || {
            let began = Instant::now();
            let guard = lock.acquire().await.unwrap();
            assert!(last < Some(guard.token()));
            last = Some(guard.token());
            guard.renew(TTL).await.unwrap();
            released(guard).await;
            began.elapsed()
        };
        // A server that does not know a script yet is sent it again, behind what has been sent meanwhile. So a release
        // that the majority did not need could come to a fast node after the next attempt.
        let guard = lock.acquire().await.unwrap();
        let holders = async || join_all(nodes.urls().iter().map(|url| holds(url))).await;
        until("each node has the lock", TTL, async || holders().await.iter().all(|holds| *holds)).await;
        released(guard).await;
        until("no node has the lock", TTL, async || !holders().await.contains(&true)).await;
        let late = ms(400);
        for what in ["slow", "a black hole"] {
            match what {
                "slow" => proxy.delay(Direction::ToClient, late),
                _ => proxy.hold_all(),
            }
            for _ in 0..10 {
                let took = cycle().await;
                assert_in_time!(took < late / 2, "{what}: {took:?}");
            }
        }
    });
}

// Proves: B25, quorum-split, majority-silent
pub(crate) fn a_lacking_majority_is_an_error_without_grant() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        released(lock.acquire().await.unwrap()).await;
        nodes.servers()[..3].iter().for_each(|server| server.kill().unwrap());
        let began = Instant::now();
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert_in_time!(began.elapsed() < ms(900), "{:?}", began.elapsed());
        for server in &nodes.addresses()[..3] {
            assert!(error.to_string().contains(server), "{error}");
        }
        let error = nodes.open(options()).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("no majority of the 5 nodes"), "{error}");
        // The three come back without data and have no vote. The other two are no majority.
        nodes.servers()[..3].iter().for_each(|server| server.restart(Data::Lost).unwrap());
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert!(error.retry_in().is_some(), "{error:?}");
    });
}

// Proves: data-lost
pub(crate) fn a_node_that_comes_back_is_refilled() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        // With a fixed lease, only the test renews.
        let lock = client.lock("a").ttl(Duration::from_secs(10)).fixed_lease().build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let holds = async || {
            let mut holds = 0;
            for url in nodes.urls() {
                let mut admin = super::nodes::admin(url).await;
                holds += redis::cmd("EXISTS").arg("a").query_async::<u32>(&mut admin).await.unwrap();
            }
            holds
        };
        nodes.servers()[0].kill().unwrap();
        nodes.servers()[0].restart(Data::Lost).unwrap();
        assert_eq!(holds().await, 4);
        guard.renew(TTL).await.unwrap();
        assert_eq!(holds().await, 5, "the lock was given back to the fifth node");
        released(guard).await;
        until("the release comes to all nodes", ms(500), async || holds().await == 0).await;
    });
}

/// The slow node answers after the renewal that it has lost the lock, and has it again after a later one.
pub(crate) fn a_slow_node_without_the_lock_is_refilled() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let proxy = Proxy::start_all(&nodes.addresses()[..1]).await.unwrap();
        let direct =
            nodes.addresses()[1..].iter().map(|address| address.parse().unwrap()).collect::<Vec<_>>();
        let client = nodes.behind(&[proxy.addresses(), &direct].concat()).open(options()).await.unwrap();
        // With a fixed lease, only the test renews.
        let lock = client.lock("a").ttl(Duration::from_secs(10)).fixed_lease().build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let url = &nodes.urls()[0];
        until("the slow node has the lock, too", TTL, async || holds(url).await).await;
        redis::cmd("DEL").arg("a").exec_async(&mut super::nodes::admin(url).await).await.unwrap();
        proxy.delay(Direction::ToClient, ms(100));
        until("a renewal gives it back", Duration::from_secs(5), async || {
            guard.renew(TTL).await.unwrap();
            holds(url).await
        })
        .await;
        released(guard).await;
    });
}

/// Returns whether this node has the lock.
async fn holds(url: &str) -> bool {
    let mut admin = super::nodes::admin(url).await;
    redis::cmd("EXISTS").arg("a").query_async::<u32>(&mut admin).await.unwrap() == 1
}

// Proves: B25, majority-silent
/// Three of five nodes have another client's lock, so two vote yes each time and a third yes never comes.
pub(crate) fn a_try_that_came_to_nothing_leaves_nothing() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        for url in &nodes.urls()[..3] {
            let mut set = redis::cmd("SET");
            set.arg("a").arg("another client").arg("PX").arg(60_000);
            set.exec_async(&mut super::nodes::admin(url).await).await.unwrap();
        }
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        for _ in 0..5 {
            assert!(lock.try_acquire().await.unwrap().is_none(), "a majority is another client's");
        }
        assert_eq!(client.shutdown(Duration::from_secs(2)).await, 0);
        for url in &nodes.urls()[3..] {
            let mut admin = super::nodes::admin(url).await;
            assert_eq!(redis::cmd("EXISTS").arg("a").query_async::<u32>(&mut admin).await.unwrap(), 0);
        }
    });
}

/// Three of five nodes had the lock. One of them has forgotten it when the first release comes, and has it again, from
/// an older state of its data, when the second one comes.
pub(crate) fn nodes_returning_meanwhile_are_not_released() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        let [_, _, c, d, e] = nodes.servers() else { unreachable!("five") };
        d.pause().unwrap();
        e.pause().unwrap();
        let terms = Terms { ttl: TTL * 5, patience: PATIENCE, waits: Queueing::Queued, label: "" };
        let mut claim = claims::claim(&client, "a", terms);
        claims::granted(&mut claim).await;
        let mut admin = super::nodes::admin(c.url()).await;
        let mut get = redis::cmd("GETDEL");
        let value: Vec<u8> = get.arg("a").query_async(&mut admin).await.unwrap();
        let error = claim.release().await.unwrap_err();
        assert!(error.is_transient(), "two nodes might still have it: {error}");
        let mut set = redis::cmd("SET");
        set.arg("a").arg(value).arg("PX").arg(60_000).exec_async(&mut admin).await.unwrap();
        d.resume().unwrap();
        e.resume().unwrap();
        until("all nodes can be reached again", TTL, || async {
            let findings = client.driver().check(PATIENCE).await.unwrap();
            let is_there =
                |finding: &&Finding| finding.subject == "reachable" && finding.level == Level::Good;
            findings.iter().filter(is_there).count() == nodes.servers().len()
        })
        .await;
        assert_eq!(claim.release().await.unwrap(), Release::NotHeld, "only two of five gave it up");
        assert_eq!(
            redis::cmd("EXISTS").arg("a").query_async::<u32>(&mut admin).await.unwrap(),
            0,
            "and it is free"
        );
    });
}

/// The revoke comes to one of three nodes after the other. Each time the holder renews with the majority to which it
/// has not come yet.
pub(crate) fn a_revoke_now_is_not_undone_by_renewals() {
    run(async {
        let nodes = Nodes::start(3, Duration::from_secs(30), &Settings::default()).unwrap();
        let long = Duration::from_secs(20);
        let holder = nodes.open(options()).await.unwrap();
        let guard = holder.lock("a").ttl(long).build().unwrap().acquire().await.unwrap();
        let [first, second, third] = &nodes.addresses()[..] else { unreachable!("three") };
        let late = [Proxy::start(second).await.unwrap(), Proxy::start(third).await.unwrap()];
        let direct = first.parse().unwrap();
        let operator = nodes.behind(&[direct, late[0].address(), late[1].address()]);
        let operator = operator.open(Options::default()).await.unwrap();
        let lock = operator.lock("a").ttl(TTL).build().unwrap();
        let seen = lock.inspect().await.unwrap().holder.unwrap().owner;
        late.iter().for_each(|proxy| proxy.hold(Direction::ToServer));
        let revoking = tokio::spawn({
            let lock = lock.clone();
            async move { lock.revoke(&seen, When::Now).await }
        });
        for (url, next) in nodes.urls().iter().zip(&late) {
            until("the revoke has come to this node", TTL, || tells(url)).await;
            let _: lock_core::Result<Duration> = guard.renew(long).await;
            next.deliver(Direction::ToServer);
        }
        assert_eq!(revoking.await.unwrap().unwrap(), Revoked::Free);
        assert_eq!(within("the holder is told", TTL, guard.lost()).await, LossReason::Revoked);
        released(lock.try_acquire().await.unwrap().expect("it is free")).await;
    });
}

/// The leases on a minority end later, as they do where an attempt or a renewal came late.
pub(crate) fn a_revoked_lock_is_free_when_a_majority_is() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        let is_everywhere = async || join_all(nodes.urls().iter().map(|url| holds(url))).await;
        until("each node has the lock", TTL, async || !is_everywhere().await.contains(&false)).await;
        for url in &nodes.urls()[..2] {
            let mut admin = super::nodes::admin(url).await;
            redis::cmd("PEXPIRE").arg("a").arg(25_000).exec_async(&mut admin).await.unwrap();
        }
        let seen = lock.inspect().await.unwrap().holder.unwrap().owner;
        let revoked = lock.revoke(&seen, When::HoldersDeadline).await.unwrap();
        let Revoked::FreeIn(left) = revoked else { panic!("it was held: {revoked:?}") };
        assert!(left <= TTL, "{left:?}, as long as two of five keep it");
        let next = within("free when three of five are", left + TTL, lock.acquire()).await.unwrap();
        assert!(next.token() > guard.token());
        released(next).await;
    });
}

/// Returns whether this node has published a release or a revoke since it was started.
async fn tells(url: &str) -> bool {
    let mut admin = super::nodes::admin(url).await;
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut admin).await.unwrap();
    info.contains("cmdstat_publish:")
}
