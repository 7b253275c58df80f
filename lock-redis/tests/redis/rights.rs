//! A user that lacks one command, each of them in turn, and a server without memory. What fails leaves no lock and no place
//! behind, nothing stays for ever, and a release that may delete the lock deletes it.

use std::time::Duration;

use lock_core::driver::{Attempt, Claim, Queueing, Release, Renewal, Revocation, When};
use lock_core::{Client, Label, Owner, OwnerBytes, Random};

use lock_conformance::claims::{self, Terms};

use crate::server::{Raw, Server, claim, granted, name, run_within};

const LIMIT: Duration = Duration::from_secs(120);
const TTL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(1);
const LOCK: &str = "n";
const LAYOUTS: [&str; 4] = ["", "?fair=true", "?layout=redisson", "?layout=redisson&fenced=1"];
/// Commands that a script of one of the layouts runs on a key, and commands that publish.
const COMMANDS: [&str; 22] = [
    "get",
    "set",
    "del",
    "pttl",
    "pexpire",
    "exists",
    "incr",
    "hset",
    "hget",
    "hdel",
    "hexists",
    "hkeys",
    "zadd",
    "zrem",
    "zscore",
    "zrank",
    "zrange",
    "zrangebyscore",
    "zcard",
    "publish",
    "pubsub",
    "time",
];

/// The user `u`, and what it may do at present.
struct User {
    raw: Raw,
    client: Client,
}

impl User {
    async fn of(server: &Server, layout: &str) -> User {
        let mut raw = server.raw().await;
        let _: () = raw.ask(&["ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all"]).await;
        let url = format!("redis://u:secret@127.0.0.1:{}{layout}", server.port());
        User { raw, client: lock_redis::connect(&url).await.expect("the user may log in") }
    }

    async fn may_not(&mut self, command: &str) {
        let _: () = self.raw.ask(&["ACL", "SETUSER", "u", "+@all", &format!("-{command}")]).await;
    }

    async fn may_all(&mut self) {
        let _: () = self.raw.ask(&["ACL", "SETUSER", "u", "+@all"]).await;
        let _: () = self.raw.ask(&["FLUSHALL"]).await;
    }

    fn waiter(&self) -> Box<dyn Claim> {
        claim(&self.client, LOCK, 20_000)
    }

    fn tries(&self) -> Box<dyn Claim> {
        let terms = Terms { ttl: TTL, patience: PATIENCE, waits: Queueing::No, label: "a test" };
        claims::claim(&self.client, LOCK, terms)
    }
}

/// Redisson's counter has no expiry, and is no lock.
fn stays_for_ever(key: &str) -> bool {
    key.starts_with("redisson_lock_token:")
}

async fn all_end_by_themselves(raw: &mut Raw, when: &str) {
    for key in raw.keys().await.iter().filter(|key| !stays_for_ever(key)) {
        // A key may have ended since.
        assert_ne!(raw.ask::<i64>(&["PTTL", key]).await, -1, "{when}: {key} stays for ever");
    }
}

/// Returns whether nothing is left but a token.
async fn only_a_token(raw: &mut Raw) -> bool {
    raw.keys().await.iter().all(|key| stays_for_ever(key) || key.ends_with(":lock~t"))
}

// Proves: redis-rights, rights-revoked
pub(crate) fn an_attempt_that_fails_leaves_nothing() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        for layout in LAYOUTS {
            let mut user = User::of(&server, layout).await;
            let mut refused = 0;
            for command in COMMANDS {
                let when = format!("{layout:?} without {command}");
                for mut asks in [user.waiter(), user.tries()] {
                    user.may_all().await;
                    user.may_not(command).await;
                    match asks.attempt().await {
                        Ok(Attempt::Granted(_)) => {}
                        Ok(busy) => panic!("{when}: {busy:?}"),
                        Err(error) => {
                            refused += 1;
                            assert!(
                                only_a_token(&mut user.raw).await,
                                "{when}: {error}: {:?}",
                                user.raw.keys().await
                            );
                        }
                    }
                    all_end_by_themselves(&mut user.raw, &when).await;
                    // Again, as its owner.
                    drop(asks.attempt().await);
                    all_end_by_themselves(&mut user.raw, &when).await;
                }
            }
            println!("{layout:?}: {refused} refusals");
            assert!(refused >= 6, "{layout:?}: {refused}");
        }
    });
}

// Proves: redis-rights
/// Fair locks alone keep places.
pub(crate) fn a_refused_waiter_leaves_no_place_for_ever() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let mut user = User::of(&server, "?fair=true").await;
        let other = server.client("?fair=true").await;
        for command in COMMANDS {
            user.may_all().await;
            granted(&mut claim(&other, LOCK, 20_000)).await;
            user.may_not(command).await;
            let mut waiter = user.waiter();
            for _ in 0..2 {
                drop(waiter.attempt().await);
                all_end_by_themselves(&mut user.raw, &format!("a waiter without {command}")).await;
            }
        }
    });
}

// Proves: redis-rights, rights-revoked
pub(crate) fn a_holder_without_a_right_keeps_what_it_can() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        for layout in LAYOUTS {
            let mut user = User::of(&server, layout).await;
            for command in COMMANDS {
                user.may_all().await;
                let when = format!("{layout:?} without {command}");
                let mut holder = user.waiter();
                granted(&mut holder).await;
                user.may_not(command).await;
                let renewal = holder.renew(TTL * 2).await;
                all_end_by_themselves(&mut user.raw, &when).await;
                let left: i64 = user.raw.ask(&["PTTL", LOCK]).await;
                assert_eq!(matches!(renewal, Ok(Renewal::Held { .. })), left > 20_000, "{when}: {renewal:?}");

                let released = holder.release().await;
                let is_there = user.raw.ask::<u32>(&["EXISTS", LOCK]).await == 1;
                match &released {
                    Ok(told) => {
                        assert!(matches!(told, Release::Released { .. }) && !is_there, "{when}: {told:?}");
                    }
                    Err(error) => assert!(is_there, "{when}: it is told as not released, and is: {error}"),
                }
                all_end_by_themselves(&mut user.raw, &when).await;
                // Only what takes the lock away or finds it keeps the lock from being released.
                let needed = ["get", "del", "hexists", "hkeys", "hdel", "time"];
                assert!(released.is_ok() || needed.contains(&command), "{when}: {released:?}");
            }
        }
    });
}

pub(crate) fn a_revoke_that_fails_changes_nothing() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        for (layout, when) in
            LAYOUTS.iter().flat_map(|layout| [(layout, When::Now), (layout, When::HoldersDeadline)])
        {
            let mut user = User::of(&server, layout).await;
            for command in COMMANDS {
                user.may_all().await;
                let mut holder = user.waiter();
                granted(&mut holder).await;
                let shown =
                    user.client.driver().inspect(&name(LOCK), PATIENCE).await.unwrap().holder.unwrap();
                let before = user.raw.dump(LOCK).await;
                user.may_not(command).await;
                let (owner, by) = (OwnerBytes::new(shown.owner.as_bytes()), Owner::mint(&Random::system()));
                let revocation = Revocation::new(owner, by, Label::new("ops"), when, PATIENCE);
                let revoked = user.client.driver().revoke(&name(LOCK), revocation).await;
                let after = user.raw.dump(LOCK).await;
                let what = format!("{layout:?} without {command}, {when:?}: {revoked:?}");
                assert_eq!(revoked.is_err(), before == after, "{what}");
                all_end_by_themselves(&mut user.raw, &what).await;
            }
        }
    });
}

// Proves: redis-rights, no-memory
pub(crate) fn without_memory_holders_of_every_layout_renew_and_release() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        for layout in LAYOUTS {
            let client = server.client(layout).await;
            let mut holder = claim(&client, LOCK, 20_000);
            granted(&mut holder).await;
            let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
            for mut asks in [claim(&client, "free", 20_000), {
                let terms = Terms { ttl: TTL, patience: PATIENCE, waits: Queueing::No, label: "a test" };
                claims::claim(&client, "free", terms)
            }] {
                let error = asks.attempt().await.unwrap_err();
                assert!(error.is_transient() && error.message().contains("no memory"), "{layout:?}: {error}");
            }
            let keys = raw.keys().await;
            assert!(!keys.iter().any(|key| key.starts_with("free")), "{layout:?}: {keys:?}");
            assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }), "{layout:?}");
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }), "{layout:?}");
            let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
            let _: () = raw.ask(&["FLUSHALL"]).await;
        }
    });
}
