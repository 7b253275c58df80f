//! URL parameters about reaching the server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::patience;
use lock_conformance::timing::Answered;
use lock_test_servers::lazy;
use tokio::net::TcpListener;

use crate::server::{LONG, Server, run};

pub(crate) fn opening_waits_for_a_server_unless_it_is_lazy() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let url = format!("{}&patience=1s", server.0.url());
        let client = lazy::client_of_a_dead_server(&server.0, &url, lock_etcd::connect).await;
        lazy::finds_its_server(&client, &server.0, LONG).await;
        lazy::opens_when_its_server_comes(&server.0, &url, lock_etcd::connect).await;
    })
}

pub(crate) fn the_patience_is_the_urls() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = lock_etcd::connect(&format!("{}&patience=700ms", server.0.url())).answered().await;
        server.0.pause().unwrap();
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        server.0.resume().unwrap();
    })
}

pub(crate) fn a_port_that_closes_every_connection_is_told_soon() -> Result<(), String> {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("etcd://{}/?patience=30s", listener.local_addr().unwrap());
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let closing = tokio::spawn(async move {
            loop {
                drop(listener.accept().await.unwrap());
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let asked = Instant::now();
        let error = lock_etcd::connect(&url).await.unwrap_err();
        assert_in_time!(asked.elapsed() <= Duration::from_secs(1), "told after {:?}", asked.elapsed());
        assert!(error.is_transient(), "{error}");
        assert!(
            error.message().starts_with("the connection broke before the server's answer came"),
            "{error}"
        );
        let accepted = accepted.load(Ordering::Relaxed);
        assert!(accepted > 1, "what one connection shows may be lost: {accepted} opened");
        closing.abort();
    })
}
