//! The URL parameters about how a server is reached and asked.

use std::time::Duration;

use lock_conformance::patience;
use lock_conformance::timing::Answered;
use lock_core::ErrorKind;
use lock_sql::mysql;
use lock_test_servers::{Owned, Persistence, Settings, lazy};
use tokio::task::JoinSet;

use crate::On;
use crate::server::{PATIENCE, Server, TTL, claim, execute, granted, number, run, until};

pub(crate) fn opening_waits_for_the_server_unless_it_is_lazy(on: On) {
    run(async {
        let owned = Owned::start(on, &Settings::default()).expect("the server can be started");
        let url = format!("{}?patience=1s", owned.url());
        let client = lazy::client_of_a_dead_server(&owned, &url, mysql::connect).await;
        lazy::finds_its_server(&client, &owned, TTL).await;
        lazy::opens_when_its_server_comes(&owned, &url, mysql::connect).await;
    });
}

pub(crate) fn a_lazy_clients_first_call_refuses_like_opening(on: On) {
    run(async {
        let server = Server::shared(on).await;
        server.execute("CREATE TABLE onelock_locks (id INT) ENGINE=InnoDB COMMENT='onelock schema 2'").await;
        let client = mysql::connect(&server.url("?lazy=true")).await.unwrap();
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        for error in [
            lock.try_acquire().await.map(drop).unwrap_err(),
            lock.inspect().await.map(drop).unwrap_err(),
            client.check().await.map(drop).unwrap_err(),
        ] {
            assert!(error.kind() == ErrorKind::Rejected && error.message().contains("newer"), "{error}");
        }
        server.execute("DROP TABLE onelock_locks").await;
        drop(lock.acquire().answered().await);
    });
}

/// Every statement that uses the table then waits.
const KEEP: &str = "LOCK TABLES onelock_locks WRITE";

pub(crate) fn the_patience_is_the_urls(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = mysql::connect(&server.url("?patience=700ms")).answered().await;
        let mut raw = server.raw().await;
        execute(&mut raw, KEEP).await;
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        execute(&mut raw, "UNLOCK TABLES").await;
    });
}

/// All connections but one are for calls that take locks; one is for renewals and releases.
pub(crate) fn a_client_opens_the_connections_its_url_allows(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let (mut raw, mut looks) = (server.raw().await, server.raw().await);
        let others = format!(
            "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist
             WHERE db = '{}' AND id <> CONNECTION_ID()",
            server.database()
        );
        for allowed in [2, 4] {
            let client = mysql::connect(&server.url(&format!("?connections={allowed}"))).answered().await;
            let mut holder = claim(&client, &format!("held {allowed}"), PATIENCE);
            granted(&mut holder).await;
            execute(&mut raw, KEEP).await;
            let mut tasks = JoinSet::new();
            for n in 0..10 {
                let mut claim = claim(&client, &format!("{n} of {allowed}"), Duration::from_secs(1));
                tasks.spawn(async move { drop(claim.attempt().await.expect_err("the table is kept")) });
            }
            tasks.spawn(async move { drop(holder.renew(PATIENCE).await) });
            let mut most = 0;
            while tasks.try_join_next().is_none() {
                // The connection that keeps the table is not the client's.
                most = most.max(number(&mut looks, &others).await - 1);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            execute(&mut raw, "UNLOCK TABLES").await;
            tasks.join_all().await;
            assert_eq!(most, allowed, "connections of the client");
            drop(client);
            until("they are closed", async || number(&mut looks, &others).await == 1).await;
        }
    });
}

pub(crate) fn a_socket_leads_to_the_server(on: On) {
    run(async {
        let settings = Settings { persistence: Persistence::None, ..Settings::default() };
        let owned = Owned::start(on, &settings).expect("the server can be started");
        let socket = owned.socket().expect("it has one").display().to_string();
        let (_, database) = owned.url().rsplit_once('/').expect("it names a database");
        // No server listens at that port.
        let client =
            mysql::connect(&format!("mysql://lock@127.0.0.1:1/{database}?socket={socket}")).await.unwrap();
        granted(&mut claim(&client, "a", PATIENCE)).await;
        let server = Server::of(owned);
        assert_eq!(server.number("SELECT COUNT(*) FROM onelock_locks WHERE name = 'a'").await, 1);
    });
}
