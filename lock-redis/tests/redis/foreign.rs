//! Keys that other programs have written.

use std::time::{Duration, Instant};

use lock_conformance::timing::{released, within};
use lock_conformance::{assert_in_time, claims};
use lock_core::driver::{Revocation, Revoked, When};
use lock_core::{ErrorKind, Label, MAX_LABEL, Owner, OwnerBytes, Random};

use crate::server::{Server, busy, claim, granted, name, run};

const PATIENCE: Duration = Duration::from_secs(1);

fn revocation(holder: &str, when: When) -> Revocation {
    Revocation::new(
        OwnerBytes::new(holder.as_bytes()),
        Owner::mint(&Random::system()),
        Label::new("ops"),
        when,
        PATIENCE,
    )
}

// Proves: error-kinds
pub(crate) fn a_key_without_lease_is_refused_and_kept() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let _: () = raw.ask(&["HSET", "hash", "field", "value"]).await;
        let _: () = raw.ask(&["SET", "string", "a setting"]).await;
        let driver = client.driver();
        for key in ["hash", "string"] {
            let error = claim(&client, key, 20_000).attempt().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{key}: {error}");
            for when in [When::Now, When::HoldersDeadline] {
                let error = driver.revoke(&name(key), revocation("a setting", when)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Rejected, "{key}: {error}");
            }
        }
        assert_eq!(driver.inspect(&name("hash"), PATIENCE).await.unwrap_err().kind(), ErrorKind::Rejected);
        let shown = driver.inspect(&name("string"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!((shown.owner.as_bytes(), shown.expires_in), (b"a setting".as_slice(), None));
        assert_eq!(raw.keys().await, ["hash", "string"], "neither a token nor anything else was left");
        assert_eq!(raw.ask::<String>(&["GET", "string"]).await, "a setting");
    });
}

pub(crate) fn a_token_that_is_none_leaves_the_lock_free() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut first = claim(&client, "a", 20_000);
        granted(&mut first).await;
        first.release().await.unwrap();
        let side = raw.keys().await.pop().unwrap();
        // Also texts that Lua accepts as numbers.
        let texts = [
            "9007199254740992",
            "x",
            "",
            "nan",
            "-nan",
            "inf",
            "-inf",
            "0x10",
            "1e3",
            "-5",
            "5.5",
            " 5",
            "5\n",
        ];
        let texts = texts.map(|text| vec!["SET", &side, text]);
        for writes in texts.into_iter().chain([vec!["RPUSH", &side, "x"]]) {
            let _: redis::Value = raw.ask(&["DEL", &side]).await;
            let _: redis::Value = raw.ask(&writes).await;
            let error = claim(&client, "a", 20_000).attempt().await.expect_err(writes[2]);
            assert_eq!(error.kind(), ErrorKind::Rejected, "{writes:?}: {error}");
            assert!(
                error.message().contains("holds no token") || writes[0] == "RPUSH",
                "{writes:?}: {error}"
            );
            let taken: u32 = raw.ask(&["EXISTS", "a"]).await;
            assert_eq!(taken, 0, "{writes:?}: an error after the write left the lock taken");
        }
    });
}

// Proves: cleaned-text
/// A value in the form of ours, that another program has written.
pub(crate) fn what_looks_like_ours_is_shown_in_one_line() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client("").await);
        let forged = "a\u{1b}[2J\nlock: b\u{9b}\u{202e}\u{2028}c";
        let value = format!("00000000000000000000000000000007 {forged}{}", "x".repeat(300));
        let _: () = raw.ask(&["SET", "a", &value, "PX", "60000"]).await;
        let lock = client.lock("a").wait(Duration::from_secs(1)).build().unwrap();
        let shown = lock.inspect().await.unwrap().holder.unwrap();
        let label = shown.label.as_ref().unwrap();
        assert!(label.starts_with("a [2J lock: b   cxxx") && label.len() <= MAX_LABEL, "{label:?}");
        let error = lock.acquire().await.unwrap_err();
        for said in [shown.to_string(), error.to_string(), format!("{error:?}")] {
            assert!(said.contains("a [2J lock: b") && !said.contains(char::is_control), "{said:?}");
        }
        // It is revoked as it is on the server.
        assert_eq!(lock.revoke(&shown.owner, When::Now).await.unwrap(), Revoked::Free);
    });
}

pub(crate) fn another_librarys_locks_and_ours_exclude_each_other() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let driver = client.driver();
        // A lock of ours was there before. Its token must not be shown as the other holder's.
        let mut ours = claim(&client, "a", 20_000);
        granted(&mut ours).await;
        assert_eq!(raw.ask::<Option<String>>(&["SET", "a", "theirs", "NX", "PX", "5000"]).await, None);
        ours.release().await.unwrap();

        let _: () = raw.ask(&["SET", "a", "theirs\u{1b}", "NX", "PX", "5000"]).await;
        let free_in = busy(&mut ours).await;
        assert!(free_in <= Duration::from_secs(5) && free_in > Duration::from_secs(3), "{free_in:?}");
        let shown = driver.inspect(&name("a"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!((shown.label.as_deref(), shown.token, shown.since), (None, None, None));
        assert!(shown.to_string().starts_with("held by \"theirs\\x1b\", lease ends in "), "{shown}");

        assert_eq!(
            driver.revoke(&name("a"), revocation("others", When::Now)).await.unwrap(),
            Revoked::NotHeld
        );
        assert_eq!(
            driver.revoke(&name("a"), revocation("theirs\u{1b}", When::Now)).await.unwrap(),
            Revoked::Free
        );
        assert_eq!(raw.ask::<u32>(&["EXISTS", "a"]).await, 0);
        assert_eq!(
            driver.revoke(&name("a"), revocation("theirs", When::Now)).await.unwrap(),
            Revoked::NotHeld
        );
    });
}

/// As redis-py, node-redlock and redsync write them.
const THEIRS: [&str; 3] =
    ["0b0cf1ac6d1a11ee8c990242ac120002", "9f86d081884c7d659a2feaa0c55ad015", "cGFzc3dvcmQ="];
/// As this library writes it.
const OURS: &str = "9f86d081884c7d659a2feaa0c55ad015 a label";

pub(crate) fn a_silent_holder_is_known_by_its_value() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut waiter = claim(&client, "a", 20_000);
        for theirs in THEIRS {
            let _: () = raw.ask(&["SET", "a", theirs, "PX", "5000"]).await;
            let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
            for _ in 0..5 {
                assert!(claims::busy(&mut waiter).await.without_notification, "{theirs}");
            }
            assert_eq!(raw.calls("evalsha").await, 1, "the others are cheap looks");
            // Its lease goes on, or another client has the lock. The script shows which.
            for (value, untold) in [(theirs, true), (OURS, false)] {
                let _: () = raw.ask(&["SET", "a", value, "PX", if untold { "9000" } else { "20000" }]).await;
                for _ in 0..5 {
                    assert_eq!(claims::busy(&mut waiter).await.without_notification, untold, "{value}");
                }
            }
            assert_eq!(raw.calls("evalsha").await, 3, "one for each lease");
            waiter = claim(&client, "a", 20_000);
        }
    });
}

pub(crate) fn a_waiter_soon_gets_a_silently_released_lock() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        for (value, soon) in [(THEIRS[0], true), (THEIRS[1], true), (THEIRS[2], true), (OURS, false)] {
            let _: () = raw.ask(&["SET", "a", value, "NX", "PX", "20000"]).await;
            let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
            let lock = client.lock("a").build().unwrap();
            let waiting = tokio::spawn(async move { lock.acquire().await });
            // For so long that the pauses are as long as they get.
            tokio::time::sleep(Duration::from_millis(2500)).await;
            let looks = raw.calls("pttl").await;
            assert!(!waiting.is_finished(), "{value} holds it");
            let _: u32 = raw.ask(&["DEL", "a"]).await;
            let freed = Instant::now();
            if soon {
                let guard =
                    within("it has the lock", Duration::from_secs(6), waiting).await.unwrap().unwrap();
                let took = freed.elapsed();
                assert_in_time!(took < Duration::from_millis(400), "{value}: after {took:?}");
                assert!((10..=60).contains(&looks), "{value}: {looks} looks in 2.5 s");
                released(guard).await;
            } else {
                // In the scripts of the attempts before and after it listens.
                assert!(looks <= 2, "a holder of ours tells, so it is not asked for: {looks} looks");
                waiting.abort();
            }
        }
    });
}
