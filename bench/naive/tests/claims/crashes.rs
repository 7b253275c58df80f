//! What no case of the suite plays: a client that dies between two commands, and some of several servers that fail.

use std::time::Duration;

use libtest_mimic::Trial;
use lock_conformance::claims::{Terms, busy, claim};
use lock_conformance::proxy::{Direction, Proxy};
use lock_conformance::rules::{block_on, judged};
use lock_conformance::timing::{Answered, released, still_held};
use lock_conformance::{Data, timing};
use lock_core::driver::Queueing;
use lock_core::{Client, Guard, Options};
use lock_naive::Scheme;
use lock_naive::harness::{five, settings, url_of};
use lock_test_servers::{Absence, Owned, Redis, RedisAdmin};

type Test = fn() -> Result<(), String>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        (
            "crashes::a_client_that_dies_between_setnx_and_expire_leaves_a_deadlock",
            a_client_that_dies_between_setnx_and_expire_leaves_a_deadlock,
        ),
        ("crashes::redlock_survives_a_minority", redlock_survives_a_minority),
        (
            "crashes::a_server_of_redlock_that_restarts_empty_lets_a_second_holder_in",
            a_server_of_redlock_that_restarts_empty_lets_a_second_holder_in,
        ),
    ];
    judged("lock-naive", tests)
}

/// EXPIRE counts in seconds.
const TTL: Duration = Duration::from_secs(1);
/// Longer than a test.
const LONG: Duration = Duration::from_secs(60);

const TERMS: Terms<'static> =
    Terms { ttl: TTL, patience: Duration::from_millis(400), waits: Queueing::No, label: "a test" };

/// T8. The proxy lets SETNX through and holds EXPIRE. The client dies before it can do anything about that.
fn a_client_that_dies_between_setnx_and_expire_leaves_a_deadlock() -> Result<(), String> {
    let server = Owned::start(&Redis, &settings()).map_err(Absence::reason)?;
    block_on(async {
        let proxy = Proxy::start(&server.address()).await.expect("a port is free");
        let dying = open(Scheme::Setnx, &format!("redis://{}", proxy.address())).await;
        let mut dying = claim(&dying, "name", TERMS);
        proxy.hold_open_ones_after(Direction::ToServer, 1);
        let error = dying.attempt().await.expect_err("EXPIRE has not arrived");
        assert!(error.may_have_taken_effect(), "{error:?}");
        drop(dying);

        let other = open(Scheme::Setnx, server.url()).await;
        let mut other = claim(&other, "name", TERMS);
        tokio::time::sleep(TTL * 3 / 2).await;
        busy(&mut other).await;
        let mut admin = RedisAdmin::of(server.url()).await;
        let pttl = redis::cmd("PTTL").arg("naive-setnx:name").to_owned();
        let left: i64 = pttl.query_async(admin.connection()).await.expect("PTTL");
        assert_eq!(left, -1, "the key has no expiry");
    });
    Ok(())
}

/// T15.
fn redlock_survives_a_minority() -> Result<(), String> {
    let servers = five().map_err(Absence::reason)?;
    let [dead, silent, ..] = &servers[..] else { return Err("there are five of them".to_owned()) };
    block_on(async {
        let client = redlock(&servers).await;
        released(held(&client).await).await;
        dead.kill().expect("it runs");
        released(held(&client).await).await;
        silent.pause().expect("it runs");
        released(held(&client).await).await;
        silent.resume().expect("it was paused");
    });
    Ok(())
}

/// T16, as the text tells it: the first client has A, B and C. C forgets. The second client gets C, D and E.
fn a_server_of_redlock_that_restarts_empty_lets_a_second_holder_in() -> Result<(), String> {
    let servers = five().map_err(Absence::reason)?;
    let [_, _, c, d, e] = &servers[..] else { return Err("there are five of them".to_owned()) };
    block_on(async {
        for server in [d, e] {
            server.kill().expect("it runs");
        }
        let first = held(&redlock(&servers).await).await;
        for server in [c, d, e] {
            server.restart(Data::Lost).expect("it starts again");
        }
        let second = held(&redlock(&servers).await).await;
        still_held(&first);
        still_held(&second);
        // Nothing tells the resource who comes later (T17).
        assert_eq!(first.token(), second.token());
    });
    Ok(())
}

async fn open(scheme: Scheme, url: &str) -> Client {
    scheme.connect(url, Options::default()).answered().await
}

async fn redlock(servers: &[Owned]) -> Client {
    open(Scheme::Redlock, &url_of(servers.iter().map(Owned::url))).await
}

/// Acquires the lock, within a few tries: a connection that broke counts against a try.
async fn held(client: &Client) -> Guard {
    let lock = client.lock("name").ttl(LONG).build().expect("fine terms");
    timing::within("a majority", Duration::from_secs(5), lock.acquire()).answered().await
}
