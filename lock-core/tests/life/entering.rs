//! Entering: attempts, and the listening between them.

use lock_core::driver::{Attempt, Busy, Wakes};
use lock_core::{Clock, ErrorKind};

use crate::scripted::{Script, busy, client, granted, held, ms, pass, released};
use crate::{TTL, acquired, lock};

#[tokio::test(start_paused = true)]
async fn it_looks_listens_and_looks_again_at_once() {
    let script = Script::new([busy(), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    // A release between the first attempt and the listening would go unnoticed until the next poll.
    assert_eq!(script.times_of("attempt"), [0, 1]);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_listening_attempt_is_repeated_only_after_a_change() {
    let listening = (ms(1), Ok(Attempt::Busy(Busy::queued().and_listens())));
    let script = Script::new([listening, granted(TTL)], [held(TTL)], [released()]);
    script.wakes.set(Wakes::Pushed).unwrap();
    script.listens.lock().unwrap().push_back((ms(1), Ok(())));
    let client = client(&script).await;
    let lock = lock(&client);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pass(ms(500)).await;
    assert_eq!(script.times_of("attempt"), [0]);
    script.change.notify_one();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(script.times_of("attempt"), [0, 500]);
    assert!(guard.is_held() && script.times_of("listen").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_is_attempted_again() {
    let (_, late) = granted(ms(400));
    let script = Script::new([(ms(500), late), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert!(guard.is_held());
    assert_eq!(script.times_of("attempt").len(), 2);
    // A release in between could arrive after the second attempt.
    assert!(script.times_of("release").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_slower_than_the_lease_is_an_error() {
    let script = Script::new([(ms(60), granted(ms(50)).1)], [held(ms(50))], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(ms(50)).wait(ms(500)).build().unwrap();
    for outcome in [lock.try_acquire().await.map(drop), lock.acquire().await.map(drop)] {
        let error = outcome.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("a longer ttl"), "{error}");
    }
    assert_eq!(client.shutdown(ms(1000)).await, 0);
    assert_eq!(script.times_of("release").len(), 2, "each claim releases what it may have");
}

// Proves: acquire-put-aside
#[tokio::test(start_paused = true)]
async fn an_unpolled_acquire_keeps_its_position_without_a_grant() {
    let script = Script::new([busy(), busy(), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let (aside, behind) = (lock(&client), lock(&client));
    let mut aside = Box::pin(aside.acquire());
    // It is in front of the queue when its caller turns to something else.
    assert!(Clock::system().timeout(ms(4), &mut aside).await.is_none());
    let behind = tokio::spawn(async move { behind.acquire().await });
    let asked = script.times_of("attempt").len();
    pass(ms(8000)).await;
    assert_eq!(script.times_of("attempt").len(), asked, "a caller that does not come is granted nothing");
    assert!(!behind.is_finished());
    drop(aside);
    assert!(behind.await.unwrap().unwrap().is_held());
}
