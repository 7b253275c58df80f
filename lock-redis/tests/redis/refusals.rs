// Proves: check-server
//! Servers that refuse every lock, and how they are told from servers that do not answer.

use std::time::Duration;

use lock_conformance::proxy::Proxy;
use lock_conformance::timing::{Answered, released};
use lock_conformance::{paging, refusal};
use lock_core::driver::{Finding, Level};
use lock_core::{Client, ErrorKind};

use crate::access::restricted;
use crate::server::{Server, claim, granted, run, run_within, until};

const ALL: [&str; 3] = ["~*", "&*", "+@all"];

fn rights(findings: &[Finding]) -> &str {
    &findings.iter().find(|finding| finding.subject == "rights").expect("one finding per question").message
}

/// Opens a client of the same user, whose locks have this layout.
async fn in_layout(server: &Server, layout: &str) -> Client {
    let url = format!("redis://u:secret@127.0.0.1:{}{layout}", server.port());
    lock_redis::connect(&url).await.expect("the user may log in")
}

pub(crate) fn a_missing_right_is_bad_and_named_alone() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        for (layout, rules, missing) in [
            ("", &["-evalsha"][..], "+evalsha"),
            ("", &["-set"], "+set"),
            ("", &["resetkeys", "~else:*"], "~NAME*"),
            ("?fair=true", &["-zadd"], "+zadd"),
            ("?fair=true", &["resetkeys", "~else:*"], "~NAME*"),
            ("?layout=redisson", &["-hset"], "+hset"),
            ("?layout=redisson", &["resetkeys", "~else:*"], "~redisson_*:{NAME}*"),
        ] {
            drop(restricted(&server, &mut raw, &[&ALL[..], rules].concat()).await);
            let client = in_layout(&server, layout).await;
            let found = match missing {
                // Before Redis 7.2, the server does not name a command of a script. Some commands are for
                // waiters alone.
                "+set" | "+zadd" | "+hset" => refusal::is_found(&client, missing).await,
                _ => refusal::is_told(&client, missing).await,
            };
            let told = rights(&found);
            for present in ["+time", "+pttl", "+pexpire", "+publish", "+subscribe"] {
                assert!(!told.contains(present), "{layout} {rules:?}: the user has {present}: {told}");
            }
            let _: () = raw.ask(&["FLUSHALL"]).await;
        }
    });
}

pub(crate) fn an_error_names_a_missing_command() {
    run(async {
        for renamed in ["EVALSHA", "SET"] {
            let server = Server::start(&["--rename-command", renamed, ""]);
            refusal::is_told(&server.client("").await, "rename-command").await;
        }
        let server = Server::start(&["--rename-command", "HELLO", ""]);
        let error = lock_redis::connect(&server.url("")).await.expect_err("it can't greet");
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("HELLO") && error.message().contains("proxy"), "{error}");
    });
}

pub(crate) fn a_server_that_takes_no_writes_is_bad() {
    run(async {
        let server = Server::start(&["--enable-protected-configs", "yes"]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let good = async || {
            let findings = client.check().answered().await;
            assert!(findings.iter().all(|finding| finding.level != Level::Bad), "{findings:?}");
            let guard = client.lock("free").build().unwrap().try_acquire().answered().await;
            released(guard.expect("it is free")).await;
        };
        for (setting, refuses, allows, why) in
            [("maxmemory", "1", "0", "no memory"), ("min-replicas-to-write", "1", "0", "fewer replicas")]
        {
            let _: () = raw.ask(&["CONFIG", "SET", setting, refuses]).await;
            refusal::is_told(&client, why).await;
            let _: () = raw.ask(&["CONFIG", "SET", setting, allows]).await;
            good().await;
        }

        // A snapshot that can't be written.
        let _: () = raw.ask(&["CONFIG", "SET", "dir", "/proc"]).await;
        let _: () = raw.ask(&["CONFIG", "SET", "save", "3600 1000000"]).await;
        let _: String = raw.ask(&["BGSAVE"]).await;
        until("it has failed", async || raw.info("persistence", "rdb_last_bgsave_status").await == "err")
            .await;
        refusal::is_told(&client, "snapshot").await;
        let _: () = raw.ask(&["CONFIG", "SET", "save", ""]).await;
        good().await;

        let _: () = raw.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
        refusal::is_told(&client, "is a replica").await;
    });
}

pub(crate) fn a_full_server_is_not_taken_for_another_kind() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let connected: u32 = raw.info("clients", "connected_clients").await.parse().unwrap();
        let _: () = raw.ask(&["CONFIG", "SET", "maxclients", &connected.to_string()]).await;
        for _ in 0..20 {
            let error = lock_redis::connect(&server.url("")).await.expect_err("there is no room");
            assert!(error.is_transient(), "{error:?}");
            assert!(error.message().contains("no room") || error.message().contains("maxclients"), "{error}");
        }
    });
}

/// 100,000 keys take 100 requests.
pub(crate) fn a_list_among_many_keys_has_patience_per_request() {
    const PATIENCE: Duration = Duration::from_millis(500);
    run_within(Duration::from_secs(60), async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let fill = "for i = 1, 100000 do redis.call('SET', 'other:' .. i, 'x') end return 1";
        let _: u32 = raw.ask(&["EVAL", fill, "0"]).await;
        granted(&mut claim(&server.client("").await, "held", 60_000)).await;
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await.unwrap();
        let far = format!("redis://{}?patience={}ms", proxy.address(), PATIENCE.as_millis());
        let client = lock_redis::connect(&far).await.unwrap();
        let delay = Duration::from_millis(20);
        paging::has_a_patience_for_each_request(&client, PATIENCE * 2, &proxy, delay, "keys").await;
    });
}
