//! Waits that run out: what their callers are told.

use std::sync::Arc;

use lock_core::driver::Attempt;
use lock_core::{Effect, Error, ErrorKind};

use crate::scripted::{self, Script, busy, busy_with, client, granted, held, ms, pass, released, unknown};
use crate::{TTL, lock};

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_tells_contention_from_trouble() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let contended = client(&script).await.lock("n").ttl(TTL).wait(ms(700)).build().unwrap();
    let error = contended.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");

    let script: Arc<Script> = Script::new([unknown::<Attempt>(ms(100))], [held(TTL)], [released()]);
    let troubled = client(&script).await.lock("n").ttl(TTL).wait(ms(700)).build().unwrap();
    let error = troubled.acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
    let expected = "acquire \"n\" on scripted: the server has not answered within the wait of 700 ms; last error: no answer";
    assert_eq!(error.to_string(), expected, "where it happened is said once");
}

// Proves: check-server
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_has_answered() {
    let full = || Error::unavailable(Effect::NotApplied, "the server has no memory left").as_refusal();
    for (wait, gave_up) in [(ms(700), "gave up after 700 ms"), (ms(0), "did not wait")] {
        // More attempts than a wait of 700 ms has.
        let attempts: Vec<_> = (0..100).map(|_| (ms(1), Err::<Attempt, _>(full()))).collect();
        let script = Script::new(attempts, [held(TTL)], [released()]);
        let lock = client(&script).await.lock("n").ttl(TTL).wait(wait).build().unwrap();
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
        assert_eq!(error.message(), format!("{gave_up}: the server has no memory left"));
        assert!(error.is_refusal(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_is_told_in_words() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let lock = client(&script).await.lock("n").ttl(TTL).wait(ms(0)).build().unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.message(), "did not wait: another holder had it");
    let lock = client(&script).await.lock("n").ttl(TTL).wait(ms(90_000)).build().unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.message(), "gave up after 90 s: another holder had it");
}

// Proves: wait-ends, short-waits
#[tokio::test(start_paused = true)]
async fn a_wait_ends_to_the_millisecond() {
    let silent = || unknown::<Attempt>(ms(60_000));
    for (what, attempt, wait, told) in [
        ("held", busy(), 700, 700),
        // The answer comes after 1 ms.
        ("held", busy(), 0, 1),
        ("trouble", unknown(ms(100)), 700, 700),
        ("silence", silent(), 250, 250),
        ("silence", silent(), 100, 100),
        // However short the wait is, the server has this long for its first answer.
        ("silence", silent(), 99, 100),
        ("silence", silent(), 0, 100),
    ] {
        let script = Script::new([attempt], [held(TTL)], [released()]);
        let client = client(&script).await;
        let error = client.lock("n").ttl(TTL).wait(ms(wait)).build().unwrap().acquire().await.unwrap_err();
        assert_eq!(error.kind() == ErrorKind::Timeout, what == "held", "{what}: {error:?}");
        assert_eq!(client.clock().now().since_origin(), ms(told), "{what}, for a wait of {wait} ms");
    }
}

// Proves: short-waits
#[tokio::test(start_paused = true)]
async fn a_zero_wait_allows_an_answer_within_100_ms() {
    for (takes, is_granted) in [(99, true), (101, false)] {
        let script = Script::new([(ms(takes), granted(TTL).1)], [held(TTL)], [released()]);
        let client = client(&script).await;
        let outcome = client.lock("n").ttl(TTL).wait(ms(0)).build().unwrap().acquire().await;
        assert_eq!(outcome.is_ok(), is_granted, "{outcome:?} after {takes} ms");
    }
}

/// The script's server shows no holder to an inspection: the answer to an attempt has to be enough.
#[tokio::test(start_paused = true)]
async fn a_timed_out_wait_names_the_seen_holder() {
    let there = busy_with("deploy@web-3", ms(60_000), ms(20_000));
    let script = Script::new([there], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = |wait| client.lock("n").ttl(TTL).wait(wait).build().unwrap();
    for (wait, shown) in [
        (ms(0), "held by deploy@web-3 for 60 s, lease ends in 20 s"),
        // The last attempt was half a second ago, because nothing has happened.
        (ms(700), "held by deploy@web-3 for 60 s, lease ends in 19 s"),
    ] {
        let (lock, began) = (lock(wait), scripted::now());
        let error = lock.acquire().await.map(drop).unwrap_err();
        assert!(error.to_string().contains(shown), "{wait:?}: {error}");
        let holder = error.holder().expect("it has the holder, too");
        assert_eq!(holder.label.as_deref(), Some("deploy@web-3"));
        assert!(began.elapsed() <= wait + ms(2), "{wait:?}: nothing else was asked: {:?}", began.elapsed());
    }
    // A caller that waits behind another task of this process is told what that task saw.
    let (front, behind) = (lock(ms(500)), lock(ms(300)));
    let (_, behind) = tokio::join!(front.acquire(), behind.acquire());
    assert!(behind.unwrap_err().to_string().contains("deploy@web-3"));
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_wait_among_neighbours_is_contention() {
    let script = Script::new([(ms(3), granted(TTL).1)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let mut neighbours = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let lock = lock(&client);
        neighbours.spawn(async move {
            loop {
                lock.acquire().await.unwrap().release().await;
            }
        });
    }
    pass(ms(50)).await;
    for wait in 20..60 {
        let lock = client.lock("n").ttl(TTL).wait(ms(wait)).build().unwrap();
        let error = lock.acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    }
}
