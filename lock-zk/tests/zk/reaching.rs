//! URL parameters about the time that a request may take, and about the names of locks on the server.

use std::time::Duration;

use lock_conformance::patience;
use lock_conformance::timing::Answered;
use lock_core::ErrorKind;
use lock_core::driver::Queueing;
use lock_test_servers::{Owned, Settings, ZooKeeper, lazy};

use crate::common;
use crate::server::{LONG, Server, busy, children, claim, granted, open, run};

pub(crate) fn opening_waits_for_a_server_unless_it_is_lazy() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let longest = server.client().await.info().max_ttl;
        let url = format!("{}&patience=1s", server.0.url());
        let client = lazy::client_of_a_dead_server(&server.0, &url, lock_zk::connect).await;
        let too_long = client.lock("b").ttl(longest * 2).build().expect("the bounds are not known yet");
        lazy::finds_its_server(&client, &server.0, LONG).await;
        assert_eq!(client.info().max_ttl, longest);
        assert_eq!(too_long.try_acquire().await.map(drop).unwrap_err().kind(), ErrorKind::Invalid);
        lazy::opens_when_its_server_comes(&server.0, &url, lock_zk::connect).await;
    })
}

pub(crate) fn the_patience_is_the_urls() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = lock_zk::connect(&format!("{}&patience=700ms", server.0.url())).answered().await;
        server.0.pause().unwrap();
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        server.0.resume().unwrap();
    })
}

// Proves: prefix
pub(crate) fn a_prefix_stands_before_every_name() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&format!("{}&prefix=nightly-", server.0.url())).await;
        let mut holder = claim(&client, "a", LONG, Queueing::No);
        granted(&mut holder).await;
        assert_eq!(children(&server.raw().await, "/nightly-a").await.len(), 1);
        let plain = server.client().await;
        busy(&mut claim(&plain, "nightly-a", LONG, Queueing::No)).await;
        granted(&mut claim(&plain, "a", LONG, Queueing::No)).await;
    })
}

pub(crate) fn a_server_without_room_for_a_client_says_so() -> Result<(), String> {
    run(async {
        let settings = Settings { args: vec!["maxClientCnxns=1".to_owned()], ..Settings::default() };
        let server = Owned::start(&ZooKeeper, &settings).expect("such a server was started before");
        let _other = common::raw(&server.address()).await;
        let error =
            lock_zk::connect(&format!("{}&patience=1s", server.url())).await.expect_err("there is no room");
        assert!(error.is_transient() && error.message().contains("maxClientCnxns"), "{error}");
    })
}
