//! Keys that other programs have written.

use std::time::Duration;

use lock_core::driver::{Revocation, Revoked, When};
use lock_core::{ErrorKind, Label, Owner, OwnerBytes, Random};

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

pub(crate) fn a_key_that_is_no_lease_is_refused_and_left_alone() {
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

pub(crate) fn another_librarys_lock_excludes_ours_and_the_other_way_round() {
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
