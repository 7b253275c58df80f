//! Servers in trouble: an error is never reported as contention, and tells whether anything was done.

use std::time::Duration;

use lock_conformance::timing::{released, still_held, within};
use lock_core::driver::{Claim, Level, Revocation, When};
use lock_core::{Effect, Error, ErrorKind, Label, LossReason, Owner, OwnerBytes, Random};

use crate::server::{Server, claim, granted, name, run, until};
use crate::together::run_on_one_thread;

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

// Proves: no-memory
pub(crate) fn a_server_is_unavailable_while_without_memory() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let mut claim = claim(&client, "a", 20_000);
        let error = claim.attempt().await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(error.message().contains("memory"), "{error}");
        let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
        assert!(raw.keys().await.is_empty());
        granted(&mut claim).await;
    });
}

pub(crate) fn a_server_that_evicts_locks_says_so() {
    run(async {
        let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
        let told = server.client("").await.info().data_loss.clone();
        assert!(told.contains("may be evicted") && told.contains("volatile-lru"), "{told}");
    });
}

// Proves: another-server
pub(crate) fn a_demoted_primary_is_left_and_its_successor_met() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut claim = claim(&client, "a", 20_000);
        granted(&mut claim).await;
        claim.release().await.unwrap();
        let _: () = raw.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
        let error = claim.attempt().await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        // The next connection finds out that the server is a replica.
        let error = claim.attempt().await.unwrap_err();
        assert_eq!(error.kind(), NOT_DONE, "{error}");
        assert!(client.info().data_loss.contains("is a replica"), "{}", client.info().data_loss);
        let _: () = raw.ask(&["REPLICAOF", "NO", "ONE"]).await;
        granted(&mut claim).await;
    });
}

// Proves: busy-server
/// While another program's script runs, the server answers that it is busy, or not at all.
pub(crate) fn a_blocking_script_grants_no_longer_lease() {
    run(async {
        let server = Server::start(&["--lua-time-limit", "5"]);
        let (client, mut killer) = (server.client("").await, server.raw().await);
        let lock = |name: &str, ttl_ms| {
            let ttl = Duration::from_millis(ttl_ms);
            client.lock(name).ttl(ttl).build().unwrap()
        };
        let (short, long) = (lock("short", 400), lock("long", 6000));
        let (ends, outlasts) = (short.acquire().await.unwrap(), long.acquire().await.unwrap());
        let mut other = server.raw().await;
        let endless = tokio::spawn(async move {
            other.try_ask::<()>(&["EVAL", "while true do end", "0"]).await.expect_err("it is killed")
        });
        let busy = until_busy(&mut claim(&client, "a", 6000)).await;
        assert_eq!(busy.kind(), NOT_DONE, "{busy}");
        let free = lock("free", 6000);
        let waiter = tokio::spawn(async move { free.acquire().await });
        let time = ends.valid_for() + Duration::from_millis(150);
        assert_eq!(within("the loss", time, ends.lost()).await, LossReason::Expired);
        // Longer than the pause between two renewals, and shorter than the lease.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        still_held(&outlasts);
        let _: () = killer.ask(&["SCRIPT", "KILL"]).await;
        endless.await.unwrap();
        released(within("the waiter has it", Duration::from_secs(3), waiter).await.unwrap().unwrap()).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        released(outlasts).await;
        released(short.acquire().await.unwrap()).await;
    });
}

/// Repeats attempts until the server says that it is busy. Returns that error.
async fn until_busy(claim: &mut Box<dyn Claim>) -> Error {
    let mut refused = None;
    until("the server is busy", async || match claim.attempt().await {
        Err(error) if error.message().contains("busy") => {
            refused = Some(error);
            true
        }
        _ => false,
    })
    .await;
    refused.expect("it was refused")
}

// Proves: another-server
/// Otherwise its primary, which never learns of a write on the replica, would grant the same lock again.
pub(crate) fn a_replica_that_takes_writes_locks_nothing() {
    run(async {
        let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
        let port = primary.port().to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"]);
        let mut raw = replica.raw().await;
        until("it follows", async || raw.info("replication", "master_link_status").await == "up").await;
        let client = replica.client("").await;
        // The claim of a holder that the primary knows: requests that are sent to the replica would not reach the
        // primary.
        let mut claim = claim(&client, "a", 20_000);
        let not_here = |error: Error| {
            assert_eq!(error.kind(), NOT_DONE, "{error}");
            assert!(error.message().contains("is a replica"), "{error}");
        };
        not_here(claim.attempt().await.unwrap_err());
        not_here(claim.renew(Duration::from_secs(20)).await.unwrap_err());
        not_here(claim.release().await.unwrap_err());
        let revocation = Revocation::new(
            OwnerBytes::new(b"the holder".as_slice()),
            Owner::mint(&Random::system()),
            Label::new("ops"),
            When::Now,
            Duration::from_secs(1),
        );
        not_here(client.driver().revoke(&name("a"), revocation).await.unwrap_err());
        assert!(raw.keys().await.is_empty(), "nothing may be written on a replica");
        let findings = client.check().await.unwrap();
        let level = |subject| findings.iter().find(|finding| finding.subject == subject).unwrap().level;
        assert_eq!((level("replicas"), level("rights")), (Level::Bad, Level::Unknown), "{findings:?}");

        let _: () = raw.ask(&["REPLICAOF", "NO", "ONE"]).await;
        granted(&mut claim).await;
    });
}

pub(crate) fn a_connection_that_was_cut_is_replaced() {
    // On one thread, which handles what arrives from the network in its order.
    run_on_one_thread(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut claim = claim(&client, "a", 20_000);
        let before = granted(&mut claim).await;
        for _ in 0..3 {
            let killed: u32 = raw.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
            assert_eq!(killed, 1, "it has a connection");
            // The end of the cut connection arrives before the answer to this PING. The connection was idle when it was
            // cut, so that the client notices its end and does not lose a call on it.
            let _: String = raw.ask(&["PING"]).await;
            claim.renew(Duration::from_secs(30)).await.unwrap();
        }
        assert_eq!(granted(&mut claim).await.token, before.token);
    });
}

pub(crate) fn many_calls_open_one_connection() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("?lazy=true").await;
        let before = raw.connections().await;
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let mut claim = claim(&client, &format!("lock-{n}"), 20_000);
                tokio::spawn(async move { granted(&mut claim).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let after = raw.connections().await;
        assert_eq!(after - before, 1);
    });
}

pub(crate) fn a_restarted_server_is_described_anew() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client("").await;
        assert!(client.info().data_loss.contains("loses everything"));
        server.kill();
        let mut claim = claim(&client, "a", 20_000);
        let error = claim.attempt().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        until("an attempt is known not to be done", async || {
            claim.attempt().await.unwrap_err().kind() == NOT_DONE
        })
        .await;
        server.restart();
        let mut raw = server.raw().await;
        for setting in [["appendonly", "yes"], ["appendfsync", "always"]] {
            let _: () = raw.ask(&["CONFIG", "SET", setting[0], setting[1]]).await;
        }
        granted(&mut claim).await;
        assert!(
            client.info().data_loss.contains("on disk before it is answered"),
            "{}",
            client.info().data_loss
        );
    });
}
