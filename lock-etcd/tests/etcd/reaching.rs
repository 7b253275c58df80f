//! What a URL says about reaching the server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::timing::Answered;
use lock_conformance::{Data, assert_in_time, patience};
use lock_core::{Effect, ErrorKind};
use tokio::net::TcpListener;

use crate::server::{LONG, Server, run};

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

pub(crate) fn opening_waits_for_a_server_unless_it_is_lazy() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let url = format!("{}&patience=1s", server.0.url());
        server.0.kill().unwrap();
        for eager in ["", "&lazy=false"] {
            let error = lock_etcd::connect(&format!("{url}{eager}")).await.unwrap_err();
            assert_eq!(error.kind(), NOT_DONE, "{error}");
        }
        let client = lock_etcd::connect(&format!("{url}&lazy=true")).await.unwrap();
        let lock = client.lock("a").ttl(LONG).build().unwrap();
        assert_eq!(lock.try_acquire().await.map(drop).unwrap_err().kind(), NOT_DONE);
        server.0.restart(Data::Kept).unwrap();
        drop(lock.acquire().answered().await);
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
