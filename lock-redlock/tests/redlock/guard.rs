//! A node that may have forgotten locks has no vote until no lock that it has forgotten can be held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::claims::{self, Terms};
use lock_conformance::timing::{still_held, too_late, until, void};
use lock_core::driver::{Claim, Level, Queueing};
use lock_core::{Client, ErrorKind, FencingToken, Options};
use lock_redlock::{Node, Tells, Vote};
use lock_test_servers::Settings;

use super::nodes::{FIVE, Nodes, admin, node_at};
use super::{PATIENCE, TTL, five, ms, options, released, run};

pub(crate) fn a_new_node_votes_only_after_its_operators_approval() {
    run(async {
        let nodes = Nodes::unmarked(FIVE, &Settings::default()).unwrap().with_max_ttl(ms(1500));
        let client = nodes.open(options()).await.unwrap();
        let lock = client.lock("a").ttl(ms(600)).build().unwrap();
        let began = Instant::now();
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert!(
            error.to_string().contains("lock init") && error.to_string().contains("vote again"),
            "{error}"
        );
        assert!(error.retry_in().is_some_and(|left| left <= ms(1500)), "{error:?}");
        // Even if no operator marks them, they vote when the longest ttl is over.
        let guard = lock.acquire().await.unwrap();
        assert!(began.elapsed() >= ms(1400), "{:?}", began.elapsed());
        released(guard).await;

        let fresh = Nodes::unmarked(FIVE, &Settings::default()).unwrap().with_max_ttl(ms(60_000));
        let client = fresh.open(options()).await.unwrap();
        assert_eq!(votes(&client).await, [Level::Warning; FIVE], "no client has asked them anything");
        assert_eq!(votes(&client).await, [Level::Warning; FIVE], "a check changes nothing");
        assert_eq!(majority(&client).await, Some(Level::Bad), "no lock can be taken yet");
        assert!(client.init().await.unwrap().contains("votes now"));
        assert_eq!(client.init().await.unwrap(), "", "there is nothing left to do");
        assert_eq!(votes(&client).await, [Level::Good; FIVE]);
        assert_eq!(majority(&client).await, None);
        let lock = client.lock("a").ttl(ms(600)).build().unwrap();
        released(lock.try_acquire().await.unwrap().unwrap()).await;
    });
}

/// Returns what a check says about the majority, if it says anything.
async fn majority(client: &Client) -> Option<Level> {
    let findings = client.check().await.unwrap();
    findings.into_iter().find(|finding| finding.subject == "majority").map(|finding| finding.level)
}

/// Returns what a check says about each node's vote.
async fn votes(client: &Client) -> Vec<Level> {
    let findings = client.check().await.unwrap();
    findings.into_iter().filter(|finding| finding.subject == "votes").map(|finding| finding.level).collect()
}

/// Returns what a holder has that got no message after its grant: its claim, its token, and until when it relies on the
/// lock. (A guard looks again when a node to which it listens goes away.)
async fn held(holder: &Client, ttl: Duration) -> (Box<dyn Claim>, FencingToken, Instant) {
    let terms = Terms { ttl, patience: PATIENCE, waits: Queueing::No, label: "holder" };
    let mut claim = claims::claim(holder, "a", terms);
    let began = Instant::now();
    let grant = claims::granted(&mut claim).await;
    (claim, grant.token, began + grant.valid_for)
}

// Proves: redlock-forgets, key-deleted
pub(crate) fn a_node_that_was_flushed_has_no_vote() {
    run(async {
        let nodes = five(ms(1500));
        let (holder, other) = (nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap());
        let (_claim, token, ends) = held(&holder, ms(1500)).await;
        nodes.each(&redis::cmd("FLUSHALL")).await;
        let lock = other.lock("a").ttl(ms(600)).build().unwrap();
        let next = lock.acquire().await.unwrap();
        assert!(Instant::now() >= ends, "two holders: {token} and {}", next.token());
        assert!(next.token() > token);
    });
}

// Proves: redlock-forgets, another-server, data-lost
/// The example in the documents: A, B and C grant the lock; C restarts without it; C, D and E grant it once more.
pub(crate) fn a_restarted_node_grants_nothing_that_it_has_forgotten() {
    run(async {
        let nodes = five(ms(3000));
        let (holder, other) = (nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap());
        let [a, b, c, d, e] = nodes.servers() else { unreachable!("five") };
        // D and E are paused during the grant.
        d.pause().unwrap();
        e.pause().unwrap();
        let (_claim, token, ends) = held(&holder, ms(3000)).await;
        c.kill().unwrap();
        c.restart(Data::Lost).unwrap();
        // After this time, requests that D and E got meanwhile can't take effect any more.
        tokio::time::sleep(PATIENCE).await;
        d.resume().unwrap();
        e.resume().unwrap();
        for server in [c, d, e] {
            let mut exists = redis::cmd("EXISTS");
            let there: u32 = exists.arg("a").query_async(&mut admin(server.url()).await).await.unwrap();
            assert_eq!(there, 0, "a majority does not have the lock");
        }
        let lock = other.lock("a").ttl(ms(600)).build().unwrap();
        assert!(
            lock.try_acquire().await.unwrap().is_none(),
            "two nodes have the lock, two do not, and one has no vote"
        );
        // Now the two nodes that know the holder are paused as well.
        a.pause().unwrap();
        b.pause().unwrap();
        let mut refused = 0;
        while Instant::now() < ends {
            let error = match lock.try_acquire().await {
                Ok(second) => panic!("held until {:?} from now, then {second:?}", ends - Instant::now()),
                Err(error) => error,
            };
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
            assert!(error.to_string().contains("vote again"), "{error}");
            assert!(error.retry_in().is_some_and(|left| left <= ms(3000)), "{error:?}");
            refused += 1;
        }
        if refused == 0 {
            void("the lease ended before another client could ask");
        }
        a.resume().unwrap();
        b.resume().unwrap();
        let next = lock.acquire().await.unwrap();
        assert!(next.token() > token);
    });
}

pub(crate) fn clients_agree_on_the_longest_ttl() {
    run(async {
        let nodes = five(ms(1500));
        let lock = nodes.open(options()).await.unwrap().lock("a").ttl(TTL).build();
        assert_eq!(lock.unwrap_err().kind(), ErrorKind::Invalid, "longer than the longest ttl");
        let others = Nodes::at(nodes.urls().to_vec()).with_max_ttl(ms(3000));
        let client = others.open(options()).await.unwrap();
        let lock = client.lock("a").ttl(ms(600)).build().unwrap();
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("max_ttl=1.5s"), "{error}");
        // The change takes the longer of the two.
        let began = Instant::now();
        assert!(client.init().await.unwrap().contains("votes in 3 s"));
        released(lock.acquire().await.unwrap()).await;
        assert!(began.elapsed() >= ms(2999), "{:?}", began.elapsed());
    });
}

// Proves: no-memory
pub(crate) fn a_node_that_evicts_has_no_vote() {
    run(async {
        let nodes = five(ms(1500));
        let evicts = |url: String| async move {
            let mut admin = admin(&url).await;
            for (setting, value) in [("maxmemory", "100mb"), ("maxmemory-policy", "volatile-lru")] {
                redis::cmd("CONFIG").arg("SET").arg(setting).arg(value).exec_async(&mut admin).await.unwrap();
            }
        };
        for url in &nodes.urls()[..2] {
            evicts(url.clone()).await;
        }
        let client = nodes.open(Options::default()).await.unwrap();
        let lock = client.lock("a").ttl(ms(600)).build().unwrap();
        released(lock.acquire().await.unwrap()).await;
        // With the third node, a majority evicts. Clients that connect from now on get the error.
        evicts(nodes.urls()[2].clone()).await;
        let client = nodes.open(Options::default()).await.unwrap();
        let lock = client.lock("a").ttl(ms(600)).build().unwrap();
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(
            error.to_string().contains("no vote") && error.to_string().contains("volatile-lru"),
            "{error}"
        );
        assert!(client.check().await.unwrap().iter().any(|finding| finding.subject == "votes"));
    });
}

// Proves: B14, replica-promoted
pub(crate) fn a_node_with_replicas_has_no_vote() {
    run(async {
        let (nodes, replicas) = (five(ms(1500)), Nodes::unmarked(3, &Settings::default()).unwrap());
        for (primary, replica) in nodes.servers().iter().zip(replicas.urls()) {
            let mut follow = redis::cmd("REPLICAOF");
            follow.arg("127.0.0.1").arg(primary.port()).exec_async(&mut admin(replica).await).await.unwrap();
            let primary = admin(primary.url()).await;
            until("the replica follows", TTL * 5, || async {
                let (mut info, mut primary) = (redis::cmd("INFO"), primary.clone());
                let info: String = info.arg("replication").query_async(&mut primary).await.unwrap();
                info.contains("connected_slaves:1")
            })
            .await;
        }
        refuses(&nodes, "1 attached").await;
    });
}

// Proves: rights-revoked
/// A node whose user may not ask its history could not tell whether it has been restarted.
pub(crate) fn a_node_with_unreadable_history_has_no_vote() {
    run(async {
        let nodes = five(ms(1500));
        for url in &nodes.urls()[..3] {
            let mut forbid = redis::cmd("ACL");
            forbid.arg("SETUSER").arg("default").arg("-info");
            forbid.exec_async(&mut admin(url).await).await.unwrap();
        }
        refuses(&nodes, "+info").await;
    });
}

/// Two of three addresses would be a majority with one server.
pub(crate) fn one_server_under_two_names_is_refused() {
    run(async {
        let nodes = five(ms(1500));
        let [a, b, ..] = nodes.servers() else { unreachable!("five") };
        let (first, second) = (a.url().to_owned(), format!("redis://localhost:{}", a.port()));
        let socket = format!("unix://{}", a.socket().unwrap().display());
        let database = format!("{first}/1");
        for again in [&second, &socket, &database] {
            for (before, after) in [(&first, again), (again, &first)] {
                let urls = vec![before.clone(), b.url().to_owned(), after.clone()];
                let error = match Nodes::at(urls).open(Options::default()).await {
                    Ok(_) => too_late("a node was not asked for its server while the others were waited for"),
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
                assert!(error.to_string().contains("is the same server as"), "{error}");
            }
        }
        // A node that could not be reached when the client was opened has no vote, and gets no other request.
        let registry = Arc::default();
        let [node, same] = [&first, &second].map(|url| node_at(url, &registry, nodes.max_ttl()));
        let ask = || super::token::ask("a");
        assert!(matches!(node.grant(ask(), None, PATIENCE).await, Ok(Vote::Yes { .. })));
        for _ in 0..2 {
            let error = same.grant(ask(), None, PATIENCE).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            assert!(node.release(ask(), Tells::NoWaiter, PATIENCE).await.is_ok(), "the first keeps its vote");
        }
        // After a restart it is still one server, whichever address reaches it first.
        a.kill().unwrap();
        a.restart(Data::Lost).unwrap();
        until("one of them is connected again", TTL, || async {
            same.grant(ask(), None, PATIENCE).await.is_ok()
        })
        .await;
        until("the other is refused", TTL, || async {
            node.grant(ask(), None, PATIENCE).await.is_err_and(|e| e.kind() == ErrorKind::Invalid)
        })
        .await;
    });
}

/// Asserts that a client that connects now gets no majority of votes, and the reason.
async fn refuses(nodes: &Nodes, why: &str) {
    let client = nodes.open(options()).await.unwrap();
    let error = client.lock("a").ttl(ms(600)).build().unwrap().try_acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
}

// Proves: key-deleted
/// Three of five nodes come back empty. The holder has the lock on a minority then, and learns that.
pub(crate) fn what_a_majority_has_forgotten_is_lost() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        // With a fixed lease the guard sends no renewals of its own, which would give the lock back to a node before
        // the next one has lost it.
        let lock = client.lock("a").ttl(Duration::from_secs(10)).fixed_lease().build().unwrap();
        let guard = lock.acquire().await.unwrap();
        for server in &nodes.servers()[..3] {
            server.kill().unwrap();
            server.restart(Data::Lost).unwrap();
        }
        let error = guard.renew(TTL).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    });
}

// Proves: server-restarted
pub(crate) fn a_rolling_restart_costs_no_holder_its_lock() {
    run(async {
        let nodes = five(TTL);
        let (holder, other) = (nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap());
        let guard = holder.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap();
        let lock = other.lock("a").ttl(ms(600)).build().unwrap();
        let mut refused = 0;
        for server in nodes.servers() {
            server.kill().unwrap();
            server.restart(Data::Lost).unwrap();
            // The first renewal gives the lock back to this node. After the second, the node counts again before the
            // next one is restarted.
            for _ in 0..2 {
                guard.renew(TTL).await.unwrap();
            }
            match lock.try_acquire().await {
                Ok(Some(second)) => panic!("two holders: the guard and {second:?}"),
                Ok(None) => refused += 1,
                // The restarted node has no vote, so for a moment there may be no majority that shows the holder.
                Err(error) => assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}"),
            }
            still_held(&guard);
        }
        assert!(refused > 0, "no majority ever showed the holder");
        released(guard).await;
    });
}
