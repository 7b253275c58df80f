//! URL parameters about reaching the nodes, about requests to them, and about the names of locks there.

use std::pin::pin;
use std::time::{Duration, Instant};

use lock_conformance::timing::Answered;
use lock_conformance::{assert_in_time, patience};
use lock_core::{Client, Effect, ErrorKind};
use lock_test_servers::Settings;

use super::nodes::{Nodes, admin};
use super::{TTL, ms, run};

const THREE: usize = 3;

/// Starts three nodes that have their votes, and returns their URL without parameters.
fn three() -> (Nodes, String) {
    let nodes = Nodes::start(THREE, Duration::from_secs(30), &Settings::default()).unwrap();
    let url = format!("redlock://{}", nodes.addresses().join(","));
    (nodes, url)
}

async fn open(url: &str) -> Client {
    lock_redlock::connect(url).answered().await
}

pub(crate) fn opening_waits_for_a_majority_unless_it_is_lazy() {
    run(async {
        let (nodes, url) = three();
        let url = format!("{url}?patience=1s");
        // A node that is stopped keeps its vote, unlike one that is restarted.
        nodes.servers()[1..].iter().for_each(|server| server.pause().unwrap());
        for eager in ["", "&lazy=false"] {
            let error = lock_redlock::connect(&format!("{url}{eager}")).await.unwrap_err();
            let not_done = ErrorKind::Unavailable { effect: Effect::NotApplied };
            assert_eq!(error.kind(), not_done, "{error}");
        }
        let client = lock_redlock::connect(&format!("{url}&lazy=true")).await.unwrap();
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        let error = lock.try_acquire().await.map(drop).unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        nodes.servers()[1..].iter().for_each(|server| server.resume().unwrap());
        super::released(lock.acquire().answered().await).await;
        nodes.servers()[1..].iter().for_each(|server| server.pause().unwrap());
        let url = format!("{url}&connect_wait=120s");
        let mut opening = pin!(lock_redlock::connect(&url));
        let early = tokio::time::timeout(Duration::from_secs(2), opening.as_mut()).await;
        assert!(early.is_err(), "it did not wait for its servers: {early:?}");
        nodes.servers()[1..].iter().for_each(|server| server.resume().unwrap());
        drop(opening.answered().await);
    });
}

// Proves: prefix
pub(crate) fn a_database_a_prefix_and_the_longest_ttl() {
    run(async {
        let (nodes, url) = three();
        let client = open(&format!("{url}/2?prefix=nightly%3A&node_patience=1s&max_ttl=10s")).await;
        assert_eq!(client.info().max_ttl, Duration::from_secs(10));
        client.init().answered().await;
        let guard = client.lock("a").ttl(TTL).build().unwrap().try_acquire().answered().await.unwrap();
        let mut kept = 0;
        for node in nodes.urls() {
            let mut admin = admin(&format!("{node}/2")).await;
            let there: u64 = redis::cmd("EXISTS").arg("nightly:a").query_async(&mut admin).await.unwrap();
            kept += there;
        }
        assert!(
            kept as usize > THREE / 2,
            "a majority has it under its whole name, in that database: {kept}"
        );
        let plain = open(&format!("{url}/2?node_patience=1s&max_ttl=10s")).await;
        plain.init().answered().await;
        let lock = |name: &str| plain.lock(name).ttl(TTL).build().unwrap();
        assert!(lock("nightly:a").try_acquire().answered().await.is_none());
        assert!(lock("a").try_acquire().answered().await.is_some());
        super::released(guard).await;
    });
}

pub(crate) fn the_patience_is_the_urls() {
    run(async {
        let (nodes, url) = three();
        let client = open(&format!("{url}?patience=700ms&node_patience=5s")).await;
        nodes.servers().iter().for_each(|server| server.pause().unwrap());
        patience::is_the_urls(&client, ms(700)).await;
        nodes.servers().iter().for_each(|server| server.resume().unwrap());
    });
}

/// Opening a client asks every node which server it is.
pub(crate) fn a_silent_node_costs_a_nodes_patience() {
    run(async {
        let (nodes, url) = three();
        nodes.servers()[THREE - 1].pause().unwrap();
        for node_patience in [ms(300), ms(1200)] {
            let asked = Instant::now();
            open(&format!("{url}?patience=5s&node_patience={}ms", node_patience.as_millis())).await;
            let took = asked.elapsed();
            assert!(took >= node_patience / 2, "{took:?} of {node_patience:?}");
            assert_in_time!(took < node_patience * 2, "{took:?} of {node_patience:?}");
        }
        nodes.servers()[THREE - 1].resume().unwrap();
    });
}
