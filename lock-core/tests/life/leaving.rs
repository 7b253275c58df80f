//! Leaving: releases, also of attempts of unknown outcome.

use lock_core::Ending;
use lock_core::driver::Release;

use crate::scripted::{Script, busy, client, granted, held, ms, pass, released, unknown};
use crate::{PATIENCE, TTL, acquired, lock};

// Proves: acquire
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_is_released_at_once() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let mut dropped = Vec::new();
    for _ in 0..6 {
        let guard = acquired(&client).await;
        pass(ms(100)).await;
        dropped.push(u64::try_from(client.clock().now().since_origin().as_millis()).unwrap());
        drop(guard);
        pass(ms(100)).await;
    }
    assert_eq!(script.times_of("release"), dropped);
}

// Proves: release-repeated
/// Soon at first, and less and less often.
#[tokio::test(start_paused = true)]
async fn an_unanswered_release_is_retried_with_backoff() {
    let unanswered = || unknown(ms(200));
    let script =
        Script::new([granted(TTL)], [held(TTL)], [unanswered(), unanswered(), unanswered(), released()]);
    let client = client(&script).await;
    drop(acquired(&client).await);
    assert_eq!(client.shutdown(TTL).await, 0);
    let releases = script.times_of("release");
    let pauses: Vec<_> = releases.windows(2).map(|pair| pair[1] - pair[0] - 200).collect();
    let [first, second, third] = pauses[..] else { panic!("{releases:?}") };
    let doubles = (10..=20).contains(&first) && (20..=40).contains(&second) && (40..=80).contains(&third);
    assert!(doubles, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_attempt_is_released_now_and_after_patience() {
    let script = Script::new([unknown(PATIENCE / 2)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let error = lock(&client).try_acquire().await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error:?}");
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    // The attempt began at 0. The server refuses what arrives after its patience.
    assert_eq!(script.times_of("release"), [500, 1000]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_settles_no_earlier_attempt_in_flight() {
    let script = Script::new([unknown(ms(900)), busy()], [held(TTL)], [released()]);
    let client = client(&script).await;
    let waiting = tokio::spawn({
        let lock = lock(&client);
        async move { lock.acquire().await }
    });
    pass(ms(950)).await;
    waiting.abort();
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert!(releases.len() == 2 && releases[0] < 1000 && releases[1] == 1000, "{releases:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_settles_no_earlier_attempt_in_flight() {
    let script = Script::new([unknown(ms(100)), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    assert_eq!(acquired(&client).await.release().await, Ending::Released);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert!(releases.len() == 2 && releases[0] < 1000 && releases[1] == 1000, "{releases:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_leaves_nothing_to_release() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let client = client(&script).await;
    assert!(lock(&client).try_acquire().await.unwrap().is_none());
    assert_eq!(client.shutdown(TTL).await, 0);
    assert!(script.times_of("release").is_empty());
}

// Proves: release
#[tokio::test(start_paused = true)]
async fn a_release_to_a_dead_server_outlasts_the_lease() {
    let script = Script::new([granted(TTL)], [held(TTL)], [unknown(PATIENCE)]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let until = guard.valid_for();
    let asked = client.clock().now();
    assert_eq!(guard.release().await, Ending::Expired);
    assert_eq!(client.clock().now().since(asked).as_millis(), until.as_millis());
    pass(ms(500)).await;
    script.releases.lock().unwrap().clear();
    script.releases.lock().unwrap().push_back(released());
    assert_eq!(client.shutdown(PATIENCE * 3).await, 0, "the release was answered in the end");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_release_ends_when_nothing_remains() {
    let script = Script::new([granted(TTL)], [held(TTL)], [unknown(PATIENCE)]);
    let client = client(&script).await;
    drop(acquired(&client).await);
    assert_eq!(client.shutdown(TTL + PATIENCE).await, 1);
    assert_eq!(client.shutdown(TTL + PATIENCE * 2).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_expired_hold_is_no_release_in_time() {
    let script = Script::new([granted(TTL)], [held(TTL)], [(ms(1), Ok(Release::NotHeld))]);
    let client = client(&script).await;
    assert_eq!(acquired(&client).await.release().await, Ending::Expired);
}
