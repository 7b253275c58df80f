//! The keys of a fair lock are lost or changed by another program, one by one. The name goes on to be granted, or the error
//! names the key; the holder's release frees the lock whatever has become of the queue.

use std::time::{Duration, Instant};

use lock_conformance::claims;
use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Claim, Release, Renewal};
use lock_core::{Client, ErrorKind};

use crate::fair::{GRACE, SHORT, beside, queued};
use crate::server::{Raw, Server, claim, granted, run_within};

const TTL: Duration = Duration::from_secs(20);
const LOCK: &str = "n";
/// The last letters of the keys beside it: its token, the order of its waiters, until when they count as alive.
const BESIDE: [char; 3] = ['t', 'o', 'a'];
const LIMIT: Duration = Duration::from_secs(120);

/// Another program's harm to a key.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Deletes,
    MakesAList,
    /// A text that is no token; a place in front of all that no waiter has, and that all are alive for ever.
    WritesGarbage,
}

const HARMS: [Harm; 3] = [Harm::Deletes, Harm::MakesAList, Harm::WritesGarbage];

async fn harm(raw: &mut Raw, key: &str, letter: char, harm: Harm) {
    match harm {
        Harm::Deletes => _ = raw.ask::<u32>(&["DEL", key]).await,
        Harm::MakesAList => {
            let _: u32 = raw.ask(&["DEL", key]).await;
            let _: u32 = raw.ask(&["RPUSH", key, "x"]).await;
        }
        Harm::WritesGarbage if letter == 'o' => {
            let _: u32 = raw.ask(&["ZADD", key, "-1e300", "garbage"]).await;
        }
        Harm::WritesGarbage if letter == 'a' => {
            let places: Vec<String> = raw.ask(&["ZRANGE", key, "0", "-1"]).await;
            for place in places.iter().map(String::as_str).chain(["garbage"]) {
                let _: u32 = raw.ask(&["ZADD", key, "inf", place]).await;
            }
        }
        Harm::WritesGarbage => _ = raw.ask::<redis::Value>(&["SET", key, "garbage"]).await,
    }
}

/// Asks as often as the waiter is told to, until it has the lock.
///
/// Returns the refusal if there is one.
async fn served(waiter: &mut Box<dyn Claim>) -> lock_core::Result<()> {
    loop {
        match waiter.attempt().await? {
            Attempt::Granted(_) => return Ok(()),
            Attempt::Busy(busy) => {
                let look = busy.free_in.unwrap_or(Duration::ZERO);
                tokio::time::sleep(look.clamp(Duration::from_millis(1), GRACE / 4)).await;
            }
        }
    }
}

fn names_the_key(error: &lock_core::Error, key: &str) {
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.message().contains(key) && error.message().contains("delete"), "of {key}: {error}");
}

/// The waiter in front has died. The second one waits behind it.
async fn dead_and_alive(dead: &Client, alive: &Client) -> Box<dyn Claim> {
    queued(&mut claim(dead, LOCK, 20_000)).await;
    let mut waiter = claim(alive, LOCK, 20_000);
    queued(&mut waiter).await;
    waiter
}

async fn holds(claim: &mut Box<dyn Claim>) -> bool {
    matches!(claim.renew(TTL).await, Ok(Renewal::Held { .. }))
}

// Proves: redis-fair, key-deleted
pub(crate) fn a_lost_or_changed_key_stops_no_waiter() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let clients = [server.client(SHORT).await, server.client(SHORT).await, server.client(SHORT).await];
        for (letter, done) in BESIDE.iter().flat_map(|letter| HARMS.map(|done| (*letter, done))) {
            let _: () = raw.ask(&["FLUSHALL"]).await;
            let mut holder = claim(&clients[0], LOCK, 20_000);
            granted(&mut holder).await;
            let mut waiter = dead_and_alive(&clients[1], &clients[2]).await;
            let key = beside(&mut raw, letter).await.unwrap();
            harm(&mut raw, &key, letter, done).await;
            assert!(holds(&mut holder).await, "{done:?} of {key} costs the holder nothing");
            // Its answer is a place or an error, and never the lock.
            assert!(!matches!(waiter.attempt().await, Ok(Attempt::Granted(_))), "{done:?} of {key}");

            let released = holder.release().await;
            assert!(matches!(released, Ok(Release::Released { .. })), "{done:?} of {key}: {released:?}");
            assert_eq!(raw.ask::<u32>(&["EXISTS", LOCK]).await, 0, "{done:?} of {key}");
            let what = format!("{done:?} of {key}: it is served");
            let began = Instant::now();
            if let Err(error) = within(&what, GRACE * 2, served(&mut waiter)).await {
                assert!(!matches!(done, Harm::Deletes), "{what}: {error}");
                names_the_key(&error, &key);
                let _: u32 = raw.ask(&["DEL", &key]).await;
                within(&what, GRACE * 2, served(&mut waiter)).await.unwrap();
            }
            println!("{what} after {:?}", began.elapsed());
            assert!(holds(&mut waiter).await && !holds(&mut holder).await, "{what}");
            assert!(matches!(waiter.release().await.unwrap(), Release::Released { .. }));
        }
    });
}

// Proves: redis-fair
/// Only waiters that have died are in the queue.
pub(crate) fn a_changed_queue_stops_no_try() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(SHORT).await);
        for (letter, done) in BESIDE.iter().flat_map(|letter| HARMS.map(|done| (*letter, done))) {
            let _: () = raw.ask(&["FLUSHALL"]).await;
            let mut holder = claim(&client, LOCK, 20_000);
            granted(&mut holder).await;
            queued(&mut claim(&client, LOCK, 20_000)).await;
            let key = beside(&mut raw, letter).await.unwrap();
            holder.release().await.unwrap();
            harm(&mut raw, &key, letter, done).await;
            let lock = client.lock(LOCK).build().unwrap();
            let tried = async {
                loop {
                    match lock.try_acquire().await {
                        Ok(Some(guard)) => return guard,
                        Ok(None) => tokio::time::sleep(GRACE / 8).await,
                        Err(error) => {
                            names_the_key(&error, &key);
                            let _: u32 = raw.ask(&["DEL", &key]).await;
                        }
                    }
                }
            };
            within(&format!("{done:?} of {key}: a try has it"), GRACE * 2, tried).await.release().await;
        }
    });
}

/// The key of the lock itself.
pub(crate) fn a_changed_lock_is_left_alone_and_named() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(SHORT).await);
        for done in HARMS {
            let _: () = raw.ask(&["FLUSHALL"]).await;
            let mut holder = claim(&client, LOCK, 20_000);
            granted(&mut holder).await;
            let mut waiter = claim(&client, LOCK, 20_000);
            queued(&mut waiter).await;
            harm(&mut raw, LOCK, ' ', done).await;
            assert!(!holds(&mut holder).await, "{done:?}");
            if matches!(done, Harm::Deletes) {
                within("it is served", GRACE, served(&mut waiter)).await.unwrap();
                assert!(!holds(&mut holder).await);
                continue;
            }
            let lock = client.lock(LOCK).build().unwrap();
            let error = lock.acquire().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            let told = error.to_string();
            assert!(told.contains("\"n\"") && told.contains("delete the key"), "{done:?}: {told}");
            // Neither is the holder's any more, and a waiter that goes leaves no place.
            assert_eq!(holder.release().await.unwrap(), Release::NotHeld, "{done:?}");
            assert_eq!(
                waiter.release().await.unwrap(),
                Release::Released { others: Some(false) },
                "{done:?}"
            );
            assert_eq!(beside(&mut raw, 'o').await, None);
            assert_eq!(raw.ask::<u32>(&["EXISTS", LOCK]).await, 1, "another program's");
        }
    });
}

/// The order is kept although it is not known any more until when the waiters count as alive.
pub(crate) fn waiters_keep_their_order_when_their_times_are_lost() {
    run_within(LIMIT, async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client(SHORT).await;
        let mut holder = claim(&client, LOCK, 20_000);
        granted(&mut holder).await;
        let (mut first, mut second) = (claim(&client, LOCK, 20_000), claim(&client, LOCK, 20_000));
        queued(&mut first).await;
        queued(&mut second).await;
        let times = beside(&mut raw, 'a').await.unwrap();
        assert_eq!(raw.ask::<u32>(&["DEL", &times]).await, 1);
        queued(&mut second).await;
        holder.release().await.unwrap();
        assert!(claims::busy(&mut second).await.queued, "it is not its turn");
        granted(&mut first).await;
        for letter in ['o', 'a'] {
            let key = beside(&mut raw, letter).await.unwrap();
            assert!(raw.ask::<i64>(&["PTTL", &key]).await > 0, "{key} ends by itself");
        }
    });
}
