//! Locks as Redisson stores them: the form itself, and the commands of older versions of Redisson, run as the foreign
//! client.

use std::time::Duration;

use futures_util::StreamExt;
use lock_conformance::timing::within;
use lock_core::driver::Release;
use lock_core::{Client, Ending, Reentrant};

use crate::server::{Raw, Server, busy, claim, granted, name, run, until};

const REDISSON: &str = "?layout=redisson";
const FENCED: &str = "?layout=redisson&fenced=1";
const LEASE: &str = "60000";
const CHANNEL: &str = "redisson_lock__channel:{n}";
const PATIENCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(5);

const LOCK: &str = include_str!("redisson_lock.lua");
const UNLOCK: &str = include_str!("redisson_unlock.lua");

/// The benchmarks have the same commands, as a scheme of their own.
macro_rules! fair {
    ($file:literal) => {
        include_str!(concat!("../../../bench/naive/src/fair_queue/", $file, ".lua"))
    };
}

/// `Yes` if an unlock leaves its answer for when it is sent again, as Redisson has done since version 3.2x.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latch {
    Yes,
    No,
}

/// A thread of a program that uses Redisson.
struct Thread {
    raw: Raw,
    field: String,
    latch: Latch,
}

impl Thread {
    async fn of(server: &Server, number: u32, latch: Latch) -> Thread {
        let field = format!("b983c153-8e53-4c04-beb8-0c34d6e0237d:{number}");
        Thread { raw: server.raw().await, field, latch }
    }

    /// Returns `None` if it has taken the lock, else how long the lock may still be held, in ms.
    async fn lock(&mut self) -> Option<i64> {
        self.raw.ask(&["EVAL", LOCK, "1", "n", LEASE, &self.field]).await
    }

    /// Returns `None` if the lock is not this thread's, 0 if it holds the lock again, 1 if it has released it.
    async fn unlock(&mut self) -> Option<i64> {
        let latch = format!("redisson_unlock_latch:{{n}}:{}", self.field.replace('-', ""));
        match self.latch {
            Latch::No => {
                let unlock = ["EVAL", UNLOCK, "2", "n", CHANNEL, "0", LEASE, &self.field];
                self.raw.ask(&unlock).await
            }
            Latch::Yes => {
                let keys = ["EVAL", UNLOCK, "3", "n", CHANNEL, &latch];
                let arguments = ["0", LEASE, &self.field, "16164"];
                let answer = self.raw.ask(&[&keys[..], &arguments].concat()).await;
                let _: u32 = self.raw.ask(&["DEL", &latch]).await;
                answer
            }
        }
    }
}

async fn hash(raw: &mut Raw) -> Vec<(String, u32)> {
    raw.ask(&["HGETALL", "n"]).await
}

/// A lock of ours that a task waits for.
fn waits(client: &Client) -> tokio::task::JoinHandle<lock_core::Guard> {
    let lock = client.lock("n").build().unwrap();
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

pub(crate) fn a_lock_is_redissons_hash_and_leaves_its_token() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        let mut messages = redis::Client::open(server.url("")).unwrap().get_async_pubsub().await.unwrap();
        messages.subscribe(CHANNEL).await.unwrap();

        let guard = client.lock("n").label("deploy").build().unwrap().acquire().await.unwrap();
        let digits = guard.owner().to_string();
        let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        assert_eq!(hash(&mut raw).await, [(format!("{}:0", groups.join("-")), 1)]);
        let left: u64 = raw.ask(&["PTTL", "n"]).await;
        assert!((29_000..=30_000).contains(&left), "Redisson's watchdog gives 30 s, as we do: {left}");
        let shown = client.driver().inspect(&name("n"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!((shown.label.as_deref(), shown.token), (Some("deploy"), Some(guard.token())));

        assert_eq!(guard.release().await, Ending::Released);
        let message = within("a release is told", SOON, messages.on_message().next()).await.unwrap();
        assert_eq!(message.get_payload_bytes(), b"0");
        until("the latch is gone", async || raw.keys().await.len() == 1).await;
        assert!(raw.keys().await[0].ends_with(":lock~t"));
    });
}

pub(crate) fn the_next_renewal_writes_the_hold_count() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        let job = Reentrant::new();
        let lock = client.lock("n").reentrant(&job).build().unwrap();
        let guards =
            [lock.acquire().await.unwrap(), lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
        guards[0].renew(Duration::from_secs(30)).await.unwrap();
        assert_eq!(hash(&mut raw).await[0].1, 3);
        let [first, second, third] = guards;
        assert_eq!(first.release().await, Ending::Released);
        assert_eq!(hash(&mut raw).await[0].1, 2, "a guard that goes renews for the others");
        drop(second);
        until("it is written in the background", async || hash(&mut raw).await[0].1 == 1).await;
        assert_eq!(third.release().await, Ending::Released);
        assert!(hash(&mut raw).await.is_empty());
    });
}

/// Another guard of the job came while the server had no memory left for writes.
pub(crate) fn without_memory_a_reentrant_holder_is_renewed() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        let job = Reentrant::new();
        let lock = client.lock("n").reentrant(&job).build().unwrap();
        let (first, second) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
        let _: () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        first.renew(Duration::from_secs(40)).await.unwrap();
        assert!(raw.ask::<i64>(&["PTTL", "n"]).await > 30_000);
        assert_eq!(hash(&mut raw).await[0].1, 2);
        assert_eq!(second.release().await, Ending::Released);
        assert_eq!(first.release().await, Ending::Released);
    });
}

// Proves: redisson
pub(crate) fn older_redissons_and_ours_exclude_and_wake_each_other() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        for (number, latch) in (1..).zip([Latch::No, Latch::Yes]) {
            let mut theirs = Thread::of(&server, number, latch).await;
            let mut messages = redis::Client::open(server.url("")).unwrap().get_async_pubsub().await.unwrap();
            messages.subscribe(CHANNEL).await.unwrap();

            // Ours holds: theirs is told how long to wait, releases nothing, and is woken.
            let mut ours = claim(&client, "n", 20_000);
            granted(&mut ours).await;
            let left = theirs.lock().await.expect("it is held");
            assert!((1..=20_000).contains(&left), "{left}");
            assert_eq!(theirs.unlock().await, None);
            assert!(matches!(ours.release().await.unwrap(), Release::Released { .. }));
            let message = within("theirs is woken", SOON, messages.on_message().next()).await.unwrap();
            assert_eq!(message.get_payload_bytes(), b"0");

            // Theirs holds, twice: ours waits, and is woken by the second unlock.
            assert_eq!((theirs.lock().await, theirs.lock().await), (None, None));
            let free_in = busy(&mut claim(&client, "n", 20_000)).await;
            assert!(free_in > Duration::from_secs(50), "{free_in:?}");
            let waiting = waits(&client);
            until("ours listens", async || {
                raw.ask::<(String, u32)>(&["PUBSUB", "NUMSUB", CHANNEL]).await.1 >= 2
            })
            .await;
            assert_eq!(theirs.unlock().await, Some(0));
            assert!(!waiting.is_finished());
            assert_eq!(theirs.unlock().await, Some(1));
            let guard = within("ours is woken", SOON, waiting).await.unwrap();
            assert_eq!(theirs.unlock().await, None, "it is ours now");
            assert!(theirs.lock().await.is_some());
            assert_eq!(guard.release().await, Ending::Released);
        }
    });
}

pub(crate) fn redissons_fair_lock_and_ours_exclude_each_other() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        let (lock, unlock) = (fair!("lock"), fair!("unlock"));
        let (queue, timeouts) = ("redisson_lock_queue:{n}", "redisson_lock_timeout:{n}");
        let field = "b983c153-8e53-4c04-beb8-0c34d6e0237d:1";
        let locks = ["EVAL", lock, "3", "n", queue, timeouts, LEASE, field, "5000", "1700000000000", "1"];
        let unlocks =
            ["EVAL", unlock, "4", "n", queue, timeouts, CHANNEL, "0", LEASE, field, "1700000000000"];

        let mut ours = claim(&client, "n", 20_000);
        granted(&mut ours).await;
        assert!(raw.ask::<Option<i64>>(&locks).await.is_some(), "theirs queues");
        assert_eq!(raw.ask::<Option<i64>>(&unlocks).await, None);
        ours.release().await.unwrap();
        assert_eq!(raw.ask::<Option<i64>>(&locks).await, None);
        assert!(busy(&mut claim(&client, "n", 20_000)).await > Duration::from_secs(50));
        assert_eq!(raw.ask::<Option<i64>>(&unlocks).await, Some(1));
        granted(&mut claim(&client, "n", 20_000)).await;
    });
}

pub(crate) fn a_resent_release_has_the_same_answer() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(REDISSON).await);
        let guard = client.lock("n").label("").build().unwrap().acquire().await.unwrap();
        let field = hash(&mut raw).await.remove(0).0;
        let release = concat!(
            include_str!("../../src/scripts/reading.lua"),
            include_str!("../../src/scripts/redisson/release.lua")
        );
        let send = async |raw: &mut Raw, latch: &str| {
            let keys = ["EVAL", release, "3", "n", "label", latch];
            let answer: Vec<i64> =
                raw.ask(&[&keys[..], &[&field, CHANNEL, "PUBLISH", "5000"]].concat()).await;
            answer[..answer.len() - 1].to_vec()
        };
        assert_eq!(send(&mut raw, "latch").await, [1, 0]);
        assert_eq!(send(&mut raw, "latch").await, [1, -1], "the same, and nothing is known of listeners");
        assert_eq!(send(&mut raw, "another").await, [0], "another release");
        assert_eq!(guard.release().await, Ending::Expired);
    });
}

// Proves: redisson
pub(crate) fn fenced_tokens_share_one_order_with_redissons() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(FENCED).await);
        let counter = "redisson_lock_token:{n}";
        let token = async || {
            let guard = client.lock("n").build().unwrap().acquire().await.unwrap();
            let token = guard.token().get();
            assert_eq!(guard.release().await, Ending::Released);
            token
        };
        assert_eq!((token().await, token().await), (1, 2));
        // As RFencedLock does when it takes the lock.
        assert_eq!(raw.ask::<i64>(&["INCR", counter]).await, 3);
        assert_eq!(token().await, 4);
        // An attempt that is sent again has the same token.
        let mut ours = claim(&client, "n", 20_000);
        assert_eq!((granted(&mut ours).await.token.get(), granted(&mut ours).await.token.get()), (5, 5));
        ours.release().await.unwrap();
        // The holder's token is shown, also that of a thread of Redisson's.
        let _: () = raw.ask(&["HSET", "n", "b983c153-8e53-4c04-beb8-0c34d6e0237d:1", "1"]).await;
        let _: () = raw.ask(&["PEXPIRE", "n", LEASE]).await;
        let _: i64 = raw.ask(&["INCR", counter]).await;
        let shown = client.driver().inspect(&name("n"), PATIENCE).await.unwrap().holder.unwrap();
        assert_eq!(shown.token.map(lock_core::FencingToken::get), Some(6));
        let _: u32 = raw.ask(&["DEL", "n"]).await;
        for text in ["x", "1.5", "9007199254740992"] {
            let _: () = raw.ask(&["SET", counter, text]).await;
            claim(&client, "n", 20_000).attempt().await.expect_err(text);
            assert_eq!(raw.ask::<u32>(&["EXISTS", "n"]).await, 0, "{text}: an error left the lock taken");
        }
    });
}

pub(crate) fn a_string_for_a_hash_is_refused_and_kept() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let (own, redisson) = (server.client("").await, server.client(REDISSON).await);
        let held = own.lock("n").build().unwrap().acquire().await.unwrap();
        let error = claim(&redisson, "n", 20_000).attempt().await.unwrap_err();
        assert_eq!(error.kind(), lock_core::ErrorKind::Rejected, "{error}");
        assert_eq!(held.release().await, Ending::Released);
        let held = redisson.lock("n").build().unwrap().acquire().await.unwrap();
        let error = claim(&own, "n", 20_000).attempt().await.unwrap_err();
        assert_eq!(error.kind(), lock_core::ErrorKind::Rejected, "{error}");
        assert_eq!(hash(&mut raw).await.len(), 1);
        assert_eq!(held.release().await, Ending::Released);
    });
}
