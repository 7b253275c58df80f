//! URL parameters about reaching a server, and about the place of the locks in it.

use std::time::Duration;

use lock_conformance::patience;
use lock_mongo::mongodb::bson::{Document, doc};
use lock_test_servers::{MongoDb, lazy};

use crate::server::{Answered, LONG, Server, busy, claim, document, granted, open, run};

pub(crate) fn opening_waits_for_the_server_unless_it_is_lazy() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let url = format!("{}/?patience=1s", server.0.url());
        let client = lazy::client_of_a_dead_server(&server.0, &url, lock_mongo::connect).await;
        lazy::finds_its_server(&client, &server.0, LONG).await;
        lazy::opens_when_its_server_comes(&server.0, &url, lock_mongo::connect).await;
    });
}

pub(crate) fn the_patience_is_the_urls() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let client = lock_mongo::connect(&format!("{}/?patience=700ms", server.0.url())).answered().await;
        server.0.pause().unwrap();
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        server.0.resume().unwrap();
    });
}

// Proves: prefix
pub(crate) fn a_database_a_collection_and_a_prefix() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let url = format!("{}/app", server.0.url());
        let named = open(&format!("{url}?collection=jobs&prefix=nightly%3A")).await;
        granted(&mut claim(&named, "a", LONG)).await;
        let raw = server.raw().await;
        let jobs = raw.database("app").collection::<Document>("jobs");
        assert!(document(&jobs, "nightly:a").await.is_some());
        assert_eq!(jobs.count_documents(doc! {}).await.unwrap(), 1);
        // Without the prefix, the whole name is the same lock. In another collection or database it is another lock.
        busy(&mut claim(&open(&format!("{url}?collection=jobs")).await, "nightly:a", LONG)).await;
        granted(&mut claim(&open(&url).await, "nightly:a", LONG)).await;
        granted(&mut claim(&server.client().await, "nightly:a", LONG)).await;
        assert!(
            document(&server.locks().await, "nightly:a").await.is_some(),
            "it is in the default collection"
        );
    });
}

pub(crate) fn a_server_without_room_for_a_client_says_so() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &["--maxConns", "6"]);
        let address = format!("127.0.0.1:{}", server.0.port());
        let mut others = Vec::new();
        for _ in 0..12 {
            others.push(tokio::net::TcpStream::connect(&address).await.unwrap());
        }
        let url = format!("{}/?patience=2s", server.0.url());
        let error = lock_mongo::connect(&url).await.expect_err("there is no room");
        assert!(error.is_transient(), "{error:?}");
        assert!(error.message().contains("net.maxIncomingConnections"), "{error}");
    });
}
