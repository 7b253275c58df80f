//! What a URL says about reaching the server.

use std::time::Duration;

use lock_conformance::timing::Answered;
use lock_conformance::{Data, patience};
use lock_core::{Effect, ErrorKind};

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
