//! Users with limited rights.

use std::time::Duration;

use lock_core::driver::{Finding, Level, Release, Wakes};
use lock_core::{Client, ErrorKind};

use crate::server::{Raw, Server, busy, claim, granted, run};

/// Opens a client of the user `u`, who gets these rules.
pub(crate) async fn restricted(server: &Server, raw: &mut Raw, rules: &[&str]) -> Client {
    let _: () = raw.ask(&[&["ACL", "SETUSER", "u", "reset", "on", ">secret"], rules].concat()).await;
    lock_redis::connect(&format!("redis://u:secret@127.0.0.1:{}", server.port()))
        .await
        .expect("the user may log in")
}

async fn found(client: &Client, subject: &str) -> Finding {
    let findings = client.check().await.expect("the server can be reached");
    findings.into_iter().find(|finding| finding.subject == subject).expect("one finding per question")
}

pub(crate) fn a_user_without_channels_releases_and_polls() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = restricted(&server, &mut raw, &["~*", "+@all", "resetchannels"]).await;
        let mut holder = claim(&client, "a", 20_000);
        granted(&mut holder).await;
        let mut waiter = claim(&client, "a", 20_000);
        busy(&mut waiter).await;
        assert_eq!(client.info().wakes, Wakes::Pushed, "nothing is known yet");
        let error = waiter.listen().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(client.info().wakes, Wakes::Polled);
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: None });
        assert_eq!(raw.ask::<u32>(&["EXISTS", "a"]).await, 0);
        assert_eq!(found(&client, "push").await.level, Level::Warning);
        assert_eq!(found(&client, "rights").await.level, Level::Warning);
        let unheard = found(&client, "revokes").await;
        assert!(unheard.level == Level::Warning && unheard.message.contains(":lock~r"), "{unheard:?}");
        let unwatched = holder.watch().await.unwrap_err();
        assert_eq!(unwatched.kind(), ErrorKind::Unsupported, "{unwatched}");

        let _: () = raw.ask(&["ACL", "SETUSER", "u", "allchannels"]).await;
        waiter.listen().await.unwrap();
        assert_eq!(client.info().wakes, Wakes::Pushed);
        assert_eq!(found(&client, "revokes").await.level, Level::Good);
        holder.watch().await.unwrap();
    });
}

pub(crate) fn one_forbidden_channel_does_not_deafen_the_others() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = restricted(&server, &mut raw, &["~*", "+@all", "resetchannels", "&jobs:*"]).await;
        let locks = ["jobs:a", "other", "jobs:b"];
        let mut claims: Vec<_> = locks.iter().map(|lock| claim(&client, lock, 20_000)).collect();
        let [a, other, b] = &mut claims[..] else { unreachable!("three") };
        // At the same moment, so that the channels are subscribed together.
        let (a, other, b) = tokio::join!(a.listen(), other.listen(), b.listen());
        assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
        let error = other.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    });
}

// Proves: rights-revoked
pub(crate) fn a_missing_right_is_named() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        for (missing, command) in [("-evalsha", "evalsha"), ("-set", "set"), ("-pttl", "pttl")] {
            let client = restricted(&server, &mut raw, &["~*", "&*", "+@all", missing]).await;
            let mut claim = claim(&client, "a", 20_000);
            let error = match claim.attempt().await {
                Err(e) => e,
                Ok(_) => claim.attempt().await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Rejected, "{missing}: {error}");
            let names = |text: &str| text.contains(&format!("+{command}"));
            // Before Redis 7.2, the server does not name a command of a script.
            let told = error.message();
            assert!(names(told) || told.contains("`lock check` names it"), "{missing}: {error}");
            let rights = found(&client, "rights").await;
            let _: () = raw.ask(&["FLUSHALL"]).await;
            assert!(rights.level == Level::Bad && names(&rights.message), "{missing}: {rights:?}");
        }
    });
}

pub(crate) fn a_user_limited_to_keys_has_side_keys() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let rules =
            ["~jobs:*", "&jobs:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+pttl", "+pexpire"];
        let rules = [&rules[..], &["+publish", "+subscribe", "+unsubscribe"]].concat();
        let client = restricted(&server, &mut raw, &rules).await;
        let mut holder = claim(&client, "jobs:{a}", 20_000);
        granted(&mut holder).await;
        holder.renew(Duration::from_secs(30)).await.unwrap();
        let mut waiter = claim(&client, "jobs:{a}", 20_000);
        busy(&mut waiter).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
        waiter.changed().await;
        let error = claim(&client, "other", 20_000).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        // No name outside of the user's can be locked. A prefix says that none will be.
        assert_eq!(found(&client, "rights").await.level, Level::Bad);
        let within = format!("redis://u:secret@127.0.0.1:{}?prefix=jobs:", server.port());
        let within = lock_redis::connect(&within).await.unwrap();
        assert_eq!(found(&within, "rights").await.level, Level::Good);
        // INFO and CONFIG are not among these rights: what they would have told is unknown, not bad.
        for subject in ["reachable", "persistence", "eviction", "replicas"] {
            assert_eq!(found(&client, subject).await.level, Level::Unknown, "{subject}");
        }
        assert!(client.info().fencing.to_string().contains("unknown"));
    });
}

pub(crate) fn a_check_of_the_rights_leaves_nothing_behind() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client("").await;
        assert_eq!(found(&client, "rights").await.level, Level::Good);
        assert_eq!(found(&client, "push").await.level, Level::Good);
        assert!(found(&client, "reachable").await.message.contains("Redis "));
        assert!(found(&client, "persistence").await.message.contains("loses everything"));
        assert!(server.raw().await.keys().await.is_empty());
    });
}
