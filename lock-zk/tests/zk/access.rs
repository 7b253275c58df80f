//! Users, rights, and what the server grants.

use std::time::Duration;

use lock_core::driver::{Level, Queueing};
use lock_core::{ErrorKind, LossReason, Options};
use lock_zk::zookeeper_client::{Acl, AuthId, Error as ZkError, Permission};

use crate::server::{LONG, Server, TTL, busy, claim, granted, open, run, within};
use lock_conformance::refusal;
use lock_conformance::timing::released;

// Proves: check-server, error-kinds, rights-revoked
pub(crate) fn what_we_make_is_ours_alone() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&server.url_with("deploy:s%40crt@", "/app")).await;
        let mut holder = claim(&client, "a", TTL, Queueing::No);
        granted(&mut holder).await;
        let raw = server.raw_at_root().await;
        assert_eq!(raw.list_children("/app/a").await, Err(ZkError::NoAuth));
        assert_eq!(raw.delete("/app/a", None).await, Err(ZkError::NoAuth));

        let other = open(&server.url_with("other:hunter2@", "/app")).await;
        for waits in [Queueing::No, Queueing::Queued] {
            let error = claim(&other, "a", TTL, waits).attempt().await.expect_err("it has no right");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains("zk://user:password@"), "{error}");
        }
        refusal::is_told(&other, "zk://user:password@").await;

        let same = open(&server.url_with("deploy:s%40crt@", "/app")).await;
        holder.release().await.unwrap();
        granted(&mut claim(&same, "a", TTL, Queueing::No)).await;
    })
}

pub(crate) fn a_password_is_never_shown() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&server.url_with("deploy:hunter2@", "/app")).await;
        let mut claim = claim(&client, "a", TTL, Queueing::No);
        granted(&mut claim).await;
        let shown = format!(
            "{client:?} {:?} {claim:?} {:?} {:?}",
            client.driver(),
            client.info(),
            client.check().await.unwrap()
        );
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(client.info().server.ends_with("/app"), "{}", client.info().server);
    })
}

pub(crate) fn check_says_what_the_server_is() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&server.url_with("", "/new/folder")).await;
        let findings = client.check().await.expect("it can be reached");
        let subjects: Vec<&str> = findings.iter().map(|finding| finding.subject).collect();
        assert_eq!(subjects, ["reachable", "version", "encryption", "folder", "rights", "tick"]);
        assert!(findings.iter().all(|finding| finding.level == Level::Good), "{findings:?}");
        assert!(findings[5].message.contains("100 ms"), "{findings:?}");
        let raw = server.raw_at_root().await;
        assert_eq!(raw.list_children("/new/folder").await.unwrap(), Vec::<String>::new(), "nothing is left");
    })
}

/// The harness' servers grant timeouts from two ticks to ten minutes.
pub(crate) fn a_ttl_outside_the_servers_bounds_is_invalid() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let info = client.info();
        let bounds = (Duration::from_millis(400), Duration::from_secs(600));
        assert_eq!((info.min_ttl, info.max_ttl), bounds, "four ticks, and what the server said");
        for ttl in [bounds.0 - Duration::from_millis(1), bounds.1 + Duration::from_millis(1)] {
            assert_eq!(client.lock("a").ttl(ttl).build().unwrap_err().kind(), ErrorKind::Invalid);
        }
        // A server whose shortest timeout is longer than two of the URL's ticks has longer ticks itself.
        let told = server.0.url().replace("tick=100ms", "tick=50ms");
        let client = lock_zk::connect_with(&told, Options::default()).await.unwrap();
        assert_eq!(client.info().min_ttl, bounds.0);
        // The default ttl becomes the nearest one that is allowed.
        let slow = server.0.url().replace("tick=100ms", "tick=10s");
        let client = lock_zk::connect_with(&slow, Options::default()).await.unwrap();
        assert_eq!(client.info().min_ttl, LONG * 2);
        let lock = client.lock("a").build().expect("the default ttl is inside");
        assert!(lock.try_acquire().await.unwrap().is_some_and(|guard| guard.valid_for() > LONG));
    })
}

/// The node goes with its session only, and the session would live for as long as another lock in it.
pub(crate) fn a_permanently_refused_release_ends_its_session() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, raw) = (server.client().await, server.client().await, server.raw().await);
        let lock = |name: &str| client.lock(name).ttl(TTL).build().unwrap();
        let (refused, beside) = (lock("a").acquire().await.unwrap(), lock("b").acquire().await.unwrap());
        let taken = other.lock("c").ttl(LONG).build().unwrap().acquire().await.unwrap();
        let mut waits = claim(&client, "c", TTL, Queueing::Queued);
        assert!(busy(&mut waits).await.queued);
        let all_but_delete = Permission::READ | Permission::WRITE | Permission::CREATE | Permission::ADMIN;
        let anyone = |permission| [Acl::new(permission, AuthId::new("world", "anyone"))];
        raw.set_acl("/a", &anyone(all_but_delete), None).await.unwrap();
        let waiter = other.lock("a").ttl(LONG).build().unwrap();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        drop(refused);
        // The release is refused for a ttl. After that, the session lives until no claim relies on it any more.
        let guard = within("the waiter has it", TTL * 4, waiting).await.unwrap().unwrap();
        assert!(!beside.is_held(), "it was in the same session");
        assert_eq!(beside.lost().await, LossReason::Session);
        // Other claims of the session also go on or end after its end.
        assert!(busy(&mut waits).await.queued, "it waits in another session");
        drop(beside);
        assert_eq!(within("all is given back", TTL * 4, client.shutdown(TTL * 4)).await, 0);
        let again = server.client().await;
        assert!(again.lock("b").ttl(TTL).build().unwrap().try_acquire().await.unwrap().is_some());
        released(taken).await;
        raw.set_acl("/a", &anyone(Permission::ALL), None).await.unwrap();
        released(guard).await;
    })
}
