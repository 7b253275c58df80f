//! The layout of locks on the server. Two versions of the library have to agree on it.

use std::time::Duration;

use lock_core::driver::{Revocation, Revoked, When};
use lock_core::{Label, Owner, Random};
use lock_test_servers::Port;

use crate::server::{Server, claim, granted, name, run};
use lock_conformance::timing::released;

pub(crate) fn a_lock_is_its_key_and_its_token() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("/0?prefix=app:").await;
        let lock = client.lock("jobs").label("me pid 7").ttl(Duration::from_secs(20)).build().unwrap();
        let guard = lock.acquire().await.unwrap();

        let keys = raw.keys().await;
        assert_eq!(keys.len(), 2, "{keys:?}");
        assert_eq!(keys[0], "app:jobs");
        assert!(keys[1].starts_with("app:jobs") && keys[1].ends_with(":lock~t"), "{keys:?}");
        assert_eq!(keys[1].len(), "app:jobs".len() + 3 + ":lock~t".len());

        let value: String = raw.ask(&["GET", "app:jobs"]).await;
        let (owner, label) = value.split_once(' ').unwrap();
        assert!(owner.len() == 32 && owner.bytes().all(|b| b.is_ascii_hexdigit()), "{value}");
        assert_eq!((owner, label), (guard.owner().to_string().as_str(), "me pid 7"));
        let left: u64 = raw.ask(&["PTTL", "app:jobs"]).await;
        assert!((15_000..=20_000).contains(&left), "{left}");

        let token: u64 = raw.ask(&["GET", &keys[1]]).await;
        assert_eq!(token, guard.token().get());
        // An absolute time, counted from the token. With a relative expiry the key could expire before a clock that was
        // set back has caught up.
        let forgotten: u64 = raw.ask(&["PEXPIRETIME", &keys[1]]).await;
        assert_eq!(forgotten, token / 1000 + 3_600_000);

        released(guard).await;
        assert_eq!(raw.keys().await, keys[1..]);
    });
}

pub(crate) fn an_empty_label_leaves_the_owner_alone() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client("").await;
        let guard = client.lock("a").label("").build().unwrap().acquire().await.unwrap();
        let value: String = server.raw().await.ask(&["GET", "a"]).await;
        assert_eq!(value, guard.owner().to_string());
    });
}

pub(crate) fn a_revoked_lock_says_so_until_its_deadline() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut holder = claim(&client, "a", 20_000);
        granted(&mut holder).await;
        let before: String = raw.ask(&["GET", "a"]).await;
        let entry =
            client.driver().inspect(&name("a"), Duration::from_secs(1)).await.unwrap().holder.unwrap();
        let revocation = Revocation::new(
            entry.owner,
            Owner::mint(&Random::system()),
            Label::new("ops"),
            When::HoldersDeadline,
            Duration::from_secs(1),
        );
        let revoked = client.driver().revoke(&name("a"), revocation).await.unwrap();
        assert!(matches!(revoked, Revoked::FreeIn(left) if left > Duration::from_secs(15)), "{revoked:?}");
        let after: String = raw.ask(&["GET", "a"]).await;
        // The value begins with the first holder's digits, so that its release removes it.
        assert_eq!(after, format!("{}!ops", &before[..32]));
        let left: u64 = raw.ask(&["PTTL", "a"]).await;
        assert!((15_000..=20_000).contains(&left), "{left}");
    });
}

pub(crate) fn the_keys_of_a_lock_share_a_slot() {
    run(async {
        let bus = Port::free().unwrap();
        let bus_port = bus.number().to_string();
        let server = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus_port]);
        let mut raw = server.raw().await;
        let _: () = raw.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        let state =
            async || raw.clone().ask::<String>(&["CLUSTER", "INFO"]).await.contains("cluster_state:ok");
        crate::server::until("the cluster is up", state).await;
        let client = server.client("").await;
        // A cluster refuses a script whose keys are in two slots, even if one node serves both.
        let names = ["a", "{a}", "{}", "{", "}{", "a{b}c", "{}{a}", "{{a}}", "jobs:{7}:x", "🔒"];
        let more: Vec<String> = (0..200).map(|n| format!("lock-{n}")).collect();
        for lock in names.into_iter().chain(more.iter().map(String::as_str)) {
            granted(&mut claim(&client, lock, 10_000)).await;
        }
        for key in raw.keys().await.iter().filter(|key| key.ends_with(":lock~t")) {
            let slot: u16 = raw.ask(&["CLUSTER", "KEYSLOT", key]).await;
            let its: u16 = raw.ask(&["CLUSTER", "KEYSLOT", &key[..key.len() - 10]]).await;
            assert_eq!(slot, its, "{key}");
        }
    });
}
