//! `min_hold` counts for a lock whose caller had the guard. A lock that is granted after its caller has gone is
//! released at once.

use std::sync::Arc;

use lock_core::{Client, Ending, ErrorKind, LockBuilder, Reentrant};

use crate::scripted::{Script, client, granted, held, ms, pass, released};
use crate::{TTL, lock};

/// A server that takes 100 ms to grant.
async fn slow_to_grant() -> (Arc<Script>, Client) {
    let script = Script::new([(ms(100), granted(TTL).1)], [held(TTL)], [released()]);
    let client = client(&script).await;
    (script, client)
}

fn kept(client: &Client) -> LockBuilder {
    client.lock("n").ttl(TTL).min_hold(ms(5000))
}

// Proves: min-hold
#[tokio::test(start_paused = true)]
async fn a_grant_without_its_caller_is_released_at_once() {
    for reentrant in [false, true] {
        let (script, client) = slow_to_grant().await;
        let lock = if reentrant { kept(&client).reentrant(&Reentrant::new()) } else { kept(&client) };
        let lock = lock.build().unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        pass(ms(50)).await;
        waiting.abort();
        assert_eq!(client.shutdown(TTL * 2).await, 0);
        assert_eq!(script.times_of("release"), [100], "reentrant {reentrant}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_after_the_wait_is_released_at_once() {
    let script = Script::new([(ms(400), granted(TTL).1)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let error = kept(&client).wait(ms(150)).build().unwrap().acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    assert_eq!(script.times_of("release"), [400]);
}

/// The answer is on its way to a caller that is never polled again.
#[tokio::test(start_paused = true)]
async fn a_grant_not_taken_is_released_at_once() {
    let (script, client) = slow_to_grant().await;
    let lock = kept(&client).build().unwrap();
    let mut aside = Box::pin(lock.acquire());
    assert!(client.clock().timeout(ms(50), &mut aside).await.is_none());
    pass(ms(100)).await;
    drop(aside);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    assert!(script.times_of("release").iter().all(|at| *at < 200), "{:?}", script.times_of("release"));
}

#[tokio::test(start_paused = true)]
async fn a_handed_over_lock_is_held_for_min_hold() {
    for (try_it, reentrant) in [(false, false), (true, false), (false, true), (true, true)] {
        let (script, client) = slow_to_grant().await;
        let owner = Reentrant::new();
        let lock = if reentrant { kept(&client).reentrant(&owner) } else { kept(&client) };
        let lock = lock.build().unwrap();
        let guard = match try_it {
            true => lock.try_acquire().await.unwrap().unwrap(),
            false => lock.acquire().await.unwrap(),
        };
        drop(guard);
        assert_eq!(client.shutdown(TTL * 2).await, 0);
        assert_eq!(script.times_of("release"), [5000], "try {try_it}, reentrant {reentrant}");
    }
}

/// Without `min_hold` nothing has changed.
#[tokio::test(start_paused = true)]
async fn a_lock_without_min_hold_ends_with_its_guard() {
    let (script, client) = slow_to_grant().await;
    assert_eq!(lock(&client).acquire().await.unwrap().release().await, Ending::Released);
    assert_eq!(script.times_of("release"), [100]);
}
