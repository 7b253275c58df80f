//! A node that comes back with an older state of its data, without a restart, grants nothing that it has forgotten.

use std::time::Instant;

use lock_conformance::claims::{self, Terms};
use lock_conformance::timing::{until, void};
use lock_core::ErrorKind;
use lock_core::driver::Queueing;
use lock_redlock::{Node, Vote};
use lock_test_servers::{Owned, Settings};

use super::nodes::{Nodes, admin};
use super::{PATIENCE, TTL, five, ms, options, run};

// Proves: redlock-forgets, older-data
/// A replica was made and cut off before the grant. Its primary follows it, and is a primary again: the
/// server's run is the same, and so is everything that the run has written.
pub(crate) fn a_node_that_followed_another_server_has_no_vote() {
    run(async {
        let (nodes, former) = (five(ms(3000)), Nodes::unmarked(1, &Settings::default()).unwrap());
        let (c, former) = (&nodes.servers()[2], &former.servers()[0]);
        for _ in 0..2 {
            follow(former, c).await;
            leave(former).await;
            until("the replica has gone", TTL, || is_told(c, "connected_slaves:0")).await;
            // What the first replica changes on its primary is done. The second time, only the data goes over.
            nodes.mark();
        }
        grants_nothing_that_it_has_forgotten(&nodes, async |c| {
            follow(c, former).await;
            leave(c).await;
        })
        .await;
    });
}

// Proves: redlock-forgets, older-data
/// The node votes on what took the place of its database. Then that goes, and what was there before is back.
pub(crate) fn a_database_swapped_and_restored_has_no_vote() {
    run(async {
        for is_marked in [true, false] {
            let nodes = five(ms(3000));
            swap(&nodes.servers()[2]).await;
            if is_marked {
                nodes.mark();
            }
            let node = nodes.node(2);
            until("the node votes on an empty database", TTL * 3, async || {
                let vote = node.grant(super::token::ask("another"), None, PATIENCE).await;
                matches!(vote, Ok(Vote::Yes { .. }))
            })
            .await;
            grants_nothing_that_it_has_forgotten(&nodes, swap).await;
        }
    });
}

// Proves: redlock-forgets, older-data
/// Databases of several clients, each with a marker of its own.
pub(crate) fn databases_that_were_swapped_have_no_vote() {
    run(async {
        let nodes = five(ms(3000));
        let beside = Nodes::at(nodes.urls().iter().map(|url| format!("{url}/1")).collect());
        beside.with_max_ttl(nodes.max_ttl()).mark();
        grants_nothing_that_it_has_forgotten(&nodes, swap).await;
    });
}

/// A writable replica takes writes, and forgets them with its next synchronisation.
pub(crate) fn a_writable_replica_has_no_vote() {
    run(async {
        let (nodes, primary) = (five(ms(3000)), Nodes::unmarked(1, &Settings::default()).unwrap());
        let (replica, node) = (&nodes.servers()[0], nodes.node(0));
        // Clients that connect later are refused.
        node.look(super::token::ask("a"), PATIENCE).await.unwrap();
        let mut writable = redis::cmd("CONFIG");
        writable.arg("SET").arg("replica-read-only").arg("no");
        writable.exec_async(&mut admin(replica.url()).await).await.unwrap();
        follow(replica, &primary.servers()[0]).await;
        let began = Instant::now();
        while began.elapsed() < nodes.max_ttl() + PATIENCE {
            let vote = node.grant(super::token::ask("a"), None, PATIENCE).await;
            assert!(!matches!(vote, Ok(Vote::Yes { .. })), "{vote:?}");
        }
        let error = node.grant(super::token::ask("a"), None, PATIENCE).await.unwrap_err();
        assert!(error.to_string().contains("is a replica"), "{error}");
    });
}

/// A, B and C grant a lock without renewals. C comes back with the state from before that, and C, D and E are asked.
async fn grants_nothing_that_it_has_forgotten(nodes: &Nodes, comes_back: impl AsyncFnOnce(&Owned)) {
    let (holder, other) = (nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap());
    let [a, b, c, d, e] = nodes.servers() else { unreachable!("five") };
    d.pause().unwrap();
    e.pause().unwrap();
    let terms = Terms { ttl: ms(3000), patience: PATIENCE, waits: Queueing::No, label: "holder" };
    let mut claim = claims::claim(&holder, "a", terms);
    let began = Instant::now();
    let grant = claims::granted(&mut claim).await;
    let ends = began + grant.valid_for;
    comes_back(c).await;
    let there: u32 = redis::cmd("EXISTS").arg("a").query_async(&mut admin(c.url()).await).await.unwrap();
    assert_eq!(there, 0, "this node has forgotten the lock");
    // After this time, requests that D and E got meanwhile can't take effect any more.
    tokio::time::sleep(PATIENCE).await;
    a.pause().unwrap();
    b.pause().unwrap();
    d.resume().unwrap();
    e.resume().unwrap();
    let lock = other.lock("a").ttl(ms(600)).build().unwrap();
    let mut refused = 0;
    while Instant::now() < ends {
        let error = match lock.try_acquire().await {
            Ok(second) => panic!("held until {:?} from now, then {second:?}", ends - Instant::now()),
            Err(error) => error,
        };
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        refused += usize::from(error.to_string().contains("vote again"));
    }
    if refused == 0 {
        void("the lease ended before another client could ask");
    }
    a.resume().unwrap();
    b.resume().unwrap();
    let next = lock.acquire().await.unwrap();
    assert!(next.token() > grant.token);
}

/// Makes `replica` a replica of `primary`, and waits until it has its data.
async fn follow(replica: &Owned, primary: &Owned) {
    let mut at_once = redis::cmd("CONFIG");
    at_once.arg("SET").arg("repl-diskless-sync-delay").arg(0);
    at_once.exec_async(&mut admin(primary.url()).await).await.unwrap();
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(primary.port());
    follow.exec_async(&mut admin(replica.url()).await).await.unwrap();
    until("the replica has the data", TTL * 5, || is_told(replica, "master_link_status:up")).await;
}

async fn leave(replica: &Owned) {
    let mut leave = redis::cmd("REPLICAOF");
    leave.arg("NO").arg("ONE").exec_async(&mut admin(replica.url()).await).await.unwrap();
}

async fn swap(server: &Owned) {
    let mut swap = redis::cmd("SWAPDB");
    swap.arg(0).arg(1).exec_async(&mut admin(server.url()).await).await.unwrap();
}

async fn is_told(server: &Owned, line: &str) -> bool {
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("replication").query_async(&mut admin(server.url()).await).await.unwrap();
    info.contains(line)
}
