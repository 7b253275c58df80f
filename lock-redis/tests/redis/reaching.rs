//! Ways to reach a server, and to log in.

use std::pin::pin;
use std::time::{Duration, Instant};

use lock_conformance::patience;
use lock_core::driver::{Revocation, Revoked, When};
use lock_core::{Effect, ErrorKind, Label, Owner, Random};
use lock_redis::{Options, Redis};

use crate::server::{Server, claim, granted, name, run};
use lock_conformance::timing::released;

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

// Proves: prefix
pub(crate) fn a_unix_socket_a_database_and_a_prefix() {
    run(async {
        let server = Server::start(&[]);
        let socket = server.socket();
        let client =
            lock_redis::connect(&format!("unix://{}?db=2&prefix=app%3A", socket.display())).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        assert_eq!(server.raw_in(2).await.keys().await[0], "app:a");
        let client = server.client("/3").await;
        granted(&mut claim(&client, "a", 20_000)).await;
        assert_eq!(server.raw_in(3).await.keys().await[0], "a");
        assert!(client.info().server.ends_with("(database 3)"), "{}", client.info().server);
        assert!(server.raw().await.keys().await.is_empty());
    });
}

pub(crate) fn a_sockets_user_and_password_are_the_urls() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let set = ["ACL", "SETUSER", "deploy", "on", ">hunt er2", "~*", "&*", "+@all"];
        raw.ask::<String>(&set).await;
        raw.ask::<String>(&["ACL", "SETUSER", "default", "resetpass", ">toor"]).await;
        let open = async |parameters: &str| {
            lock_redis::connect(&format!("unix://{}?{parameters}", server.socket().display())).await
        };
        for (name, parameters) in [("deploy", "user=deploy&pass=hunt%20er2"), ("default", "pass=toor")] {
            let client = open(parameters).await.unwrap();
            granted(&mut claim(&client, name, 20_000)).await;
            let connections: String = raw.ask(&["CLIENT", "LIST"]).await;
            let is_ours = |line: &&str| line.contains(".sock") && line.contains(&format!("user={name} "));
            assert!(connections.lines().any(|line| is_ours(&line)), "{name}: {connections}");
        }
        for wrong in
            ["lazy=false", "pass=hunt%20er2", "user=deploy&pass=toor", "user=default&pass=hunt%20er2"]
        {
            let error = open(wrong).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{wrong}: {error}");
        }
    });
}

pub(crate) fn a_user_and_a_password_that_are_never_shown() {
    run(async {
        let server = Server::start(&["--requirepass", "hunter2"]);
        let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
        for login in [":hunter2@", "default:hunter2@"] {
            let client = lock_redis::connect(&url(login)).await.unwrap();
            granted(&mut claim(&client, login, 20_000)).await;
            let guard = client.lock("a").build().unwrap().acquire().await.unwrap();
            for shown in [
                format!("{client:?}"),
                format!("{:?} {:?}", client.driver(), client.info()),
                format!("{guard:?}"),
            ] {
                assert!(!shown.contains("hunter2"), "{shown}");
            }
            released(guard).await;
        }
        for login in ["", ":hunter3@", "nobody:hunter3@"] {
            let error = lock_redis::connect(&url(login)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{login}: {error}");
            assert!(error.message().contains("password"), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
    });
}

pub(crate) fn redis_own_options() {
    run(async {
        let server = Server::start(&[]);
        let own = redis::Client::open(server.url("/1")).unwrap();
        let client = Redis::from(&own).prefix("x:").unwrap().open(Options::default()).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        assert_eq!(server.raw_in(1).await.keys().await[0], "x:a");
        let (driver, second) = (client.driver(), Duration::from_secs(1));
        let holder = driver.inspect(&name("a"), second).await.unwrap().holder.unwrap();
        let by = Owner::mint(&Random::system());
        let revocation = Revocation::new(holder.owner, by, Label::new("ops"), When::Now, second);
        assert_eq!(driver.revoke(&name("a"), revocation).await.unwrap(), Revoked::Free);
    });
}

pub(crate) fn opening_waits_for_the_server_unless_it_is_lazy() {
    run(async {
        let server = Server::start(&[]);
        let url = server.url("");
        server.kill();
        assert_eq!(lock_redis::connect(&url).await.unwrap_err().kind(), NOT_DONE);
        let client = lock_redis::connect(&format!("{url}?lazy=true")).await.unwrap();
        let mut claim = claim(&client, "a", 20_000);
        assert_eq!(claim.attempt().await.unwrap_err().kind(), NOT_DONE);
        server.restart();
        granted(&mut claim).await;
        assert!(client.info().data_loss.contains("loses everything"), "{}", client.info().data_loss);
    });
}

pub(crate) fn opening_waits_for_a_server_not_yet_up() {
    run(async {
        let server = Server::start(&[]);
        let url = server.url("?connect_wait=120s");
        server.kill();
        let mut opening = pin!(lock_redis::connect(&url));
        let early = tokio::time::timeout(Duration::from_secs(1), opening.as_mut()).await;
        assert!(early.is_err(), "it did not wait for its server: {early:?}");
        server.restart();
        let client = opening.await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
    });
}

pub(crate) fn a_peer_that_never_answers_costs_one_patience() {
    run(async {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let began = Instant::now();
        let error =
            lock_redis::connect(&format!("redis://127.0.0.1:{port}?patience=200ms")).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(
            (Duration::from_millis(200)..Duration::from_secs(2)).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
    });
}

pub(crate) fn the_patience_is_the_urls() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client("?patience=700ms").await;
        server.stands_still(patience::is_the_urls(&client, Duration::from_millis(700))).await;
    });
}

pub(crate) fn a_slow_connection_serves_the_next_call() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("?lazy=true&patience=5s").await;
        let before = raw.connections().await;
        let mut hasty = crate::server::claim_with(&client, "a", 20_000, Duration::from_millis(100));
        let error = server.stands_still(hasty.attempt()).await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        granted(&mut hasty).await;
        let after = raw.connections().await;
        assert_eq!(after, before + 1, "the connection that was being opened was thrown away");
    });
}
