//! Users with limited rights, and a proxy in place of a server.

use std::process::Command;
use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::{Client, ErrorKind, LossReason, Options};
use lock_etcd::etcd_client::{self, ConnectOptions, Permission, PermissionType, RoleRevokePermissionOptions};
use lock_test_servers::{Port, Process};

use crate::server::{
    LONG, PATIENCE, SOON, Server, busy, claim, granted, open, queue, run, until, wait_for, within,
};
use lock_conformance::timing::{released, still_held};

/// Turns authentication on. Returns an administrator's client, and the URL of a user whose role has this right.
pub(crate) async fn restricted(server: &Server, right: Option<Permission>) -> (etcd_client::Client, String) {
    let mut raw = server.raw().await;
    raw.role_add("root").await.unwrap();
    raw.user_add("root", "toor", None).await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.role_add("locks").await.unwrap();
    if let Some(right) = right {
        raw.role_grant_permission("locks", right).await.unwrap();
    }
    raw.user_add("u", "hunter2", None).await.unwrap();
    raw.user_grant_role("u", "locks").await.unwrap();
    raw.auth_enable().await.unwrap();
    let options = ConnectOptions::new().with_user("root", "toor");
    let raw = etcd_client::Client::connect([server.0.address()], Some(options)).await.unwrap();
    (raw, server.0.url().replace("etcd://", "etcd://u:hunter2@"))
}

fn readwrite(prefix: &str) -> Option<Permission> {
    Some(Permission::new(PermissionType::Readwrite, prefix).with_prefix())
}

async fn found(client: &Client, subject: &str) -> Finding {
    let findings = client.check().await.expect("the server can be reached");
    findings.into_iter().find(|finding| finding.subject == subject).expect("one finding per question")
}

// Proves: rights-revoked
/// A lease grant and a keep-alive need no right, so they do not prove one.
pub(crate) fn a_missing_write_right_is_named() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let reading = Permission::new(PermissionType::Read, "app/").with_prefix();
        let (_raw, url) = restricted(&server, Some(reading)).await;
        let client = open(&format!("{url}&prefix=app/")).await;
        let error = claim(&client, "a", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("readwrite"), "{error}");
        let finding = found(&client, "rights").await;
        assert_eq!(finding.level, Level::Bad, "{finding:?}");
        let without_user = open(&format!("{}&prefix=app/", server.0.url())).await;
        let error = claim(&without_user, "a", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("user"), "{error}");
    })
}

pub(crate) fn a_right_to_the_prefix_is_enough() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (_raw, url) = restricted(&server, readwrite("app/")).await;
        let (client, other) =
            (open(&format!("{url}&prefix=app/")).await, open(&format!("{url}&prefix=app/")).await);
        for subject in ["rights", "push", "majority"] {
            let finding = found(&client, subject).await;
            assert_eq!(finding.level, Level::Good, "{finding:?}");
        }
        let (mut holder, mut waiter) = (claim(&client, "a", LONG), claim(&other, "a", LONG));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        let waiting = tokio::spawn(async move { wait_for(&mut waiter).await });
        holder.release().await.unwrap();
        within("it has it", Duration::from_secs(5), waiting).await.unwrap();
    })
}

/// Heartbeats read only keys that the user may read.
pub(crate) fn a_right_to_one_name_is_enough_for_it() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (_raw, url) = restricted(&server, readwrite("job")).await;
        let client = open(&url).await;
        let ttl = Duration::from_secs(1);
        let lock = client.lock("job").ttl(ttl).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        tokio::time::sleep(ttl * 2).await;
        still_held(&guard);
        released(guard).await;
        let error = claim(&client, "another", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    })
}

pub(crate) fn a_wrong_password_is_told_and_not_shown() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (_raw, url) = restricted(&server, None).await;
        let error = lock_etcd::connect(&url.replace("hunter2", "hunter3")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        let shown = format!("{error} {error:?}");
        assert!(error.message().contains("password") && !shown.contains("hunter"), "{error:?}");
        let client = lock_etcd::connect_with(&url, Options::default()).await.unwrap();
        let shown = format!("{client:?} {:?}", client.driver());
        assert!(!shown.contains("hunter2"), "{shown}");
        let plain = Server::start();
        let with_user = plain.0.url().replace("etcd://", "etcd://u:hunter2@");
        let error = lock_etcd::connect(&with_user).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::Rejected && error.message().contains("leave the user out"),
            "{error:?}"
        );
    })
}

pub(crate) fn user_and_password_may_be_parameters() -> Result<(), String> {
    run(async {
        let server = Server::start();
        restricted(&server, readwrite("a")).await;
        let named = |user: &str, password: &str| format!("{}&user={user}&pass={password}", server.0.url());
        granted(&mut claim(&open(&named("u", "hunter2")).await, "a", LONG)).await;
        for (user, password) in [("u", "hunter3"), ("nobody", "hunter2")] {
            let error = lock_etcd::connect(&named(user, password)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        }
    })
}

// Proves: rights-revoked
/// A change of rights makes every login invalid until the client logs in again.
pub(crate) fn rights_that_change_cost_no_lock() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (mut raw, url) = restricted(&server, readwrite("a")).await;
        let (client, other) = (open(&url).await, open(&url).await);
        let ttl = Duration::from_secs(2);
        let guard = client.lock("a").ttl(ttl).build().unwrap().acquire().await.unwrap();
        let lock = other.lock("a").ttl(ttl).build().unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        for n in 0..3 {
            raw.role_grant_permission("locks", readwrite(&format!("b{n}")).unwrap()).await.unwrap();
            tokio::time::sleep(ttl).await;
            still_held(&guard);
            granted(&mut claim(&client, &format!("b{n}"), LONG)).await;
        }
        released(guard).await;
        drop(within("it has it", Duration::from_secs(8), waiting).await.unwrap().unwrap());
        let whole = Some(RoleRevokePermissionOptions::new().with_prefix());
        raw.role_revoke_permission("locks", "b0", whole).await.unwrap();
        let error = claim(&client, "b0 x", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    })
}

pub(crate) fn check_says_what_the_server_is() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        assert!(found(&client, "reachable").await.message.contains("etcd 3."));
        for subject in ["reachable", "majority", "rights", "push", "clock"] {
            let finding = found(&client, subject).await;
            assert_eq!(finding.level, Level::Good, "{finding:?}");
        }
    })
}

// Proves: error-kinds, pooler
pub(crate) fn a_proxy_answering_keep_alives_is_unsupported() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let port = Port::free().unwrap();
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = Command::new(server.0.program().path());
        command.args(["grpc-proxy", "start", "--endpoints", &server.0.address(), "--listen-addr", &address]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let _proxy = Process::spawn(&mut command).unwrap();
        until("it listens", SOON, || async { tokio::net::TcpStream::connect(&address).await.is_ok() }).await;
        let client =
            lock_etcd::connect_with(&server.through(&address), Options::default().patience(PATIENCE))
                .await
                .unwrap();
        let mut first = claim(&client, "a", Duration::from_secs(5));
        // The first lock is held for one lease at most.
        let _: Result<_, _> = first.attempt().await;
        until("it is told", SOON, || async {
            let outcome = claim(&client, "b", LONG).attempt().await;
            outcome.is_err_and(|e| e.kind() == ErrorKind::Unsupported)
        })
        .await;
        let finding = found(&client, "clock").await;
        assert_eq!(finding.level, Level::Bad, "{finding:?}");
    })
}

/// The key of a refused release stays until its lease ends, and another lock would keep that lease alive.
pub(crate) fn a_permanently_refused_release_ends_its_session() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (mut raw, url) = restricted(&server, readwrite("a")).await;
        let client = open(&url).await;
        let ttl = Duration::from_secs(2);
        let lock = |name: &str| client.lock(name).ttl(ttl).build().unwrap();
        let (refused, beside) = (lock("a").acquire().await.unwrap(), lock("a b").acquire().await.unwrap());
        let late = lock("a c").acquire().await.unwrap();
        let reading = Permission::new(PermissionType::Read, "a").with_prefix();
        raw.role_grant_permission("locks", reading).await.unwrap();
        drop(refused);
        // The release is refused for a ttl; then the session ends, and the key stays until the lease ends.
        until("its key is gone", ttl * 2 + SOON, || async { queue(&mut raw.clone(), "a").await.is_empty() })
            .await;
        assert!(!beside.is_held(), "it was in the same session");
        assert_eq!(beside.lost().await, LossReason::Session);
        // The other locks of the ended session can be given back, too.
        raw.role_grant_permission("locks", readwrite("a").unwrap()).await.unwrap();
        drop((beside, late));
        assert_eq!(within("all is given back", ttl * 4, client.shutdown(ttl * 4)).await, 0);
    })
}
