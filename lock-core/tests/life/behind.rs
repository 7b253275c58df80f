//! A caller whose wait ran out behind another caller of its client, which had seen the lock held before.

use std::sync::Arc;

use lock_core::{Client, Error, ErrorKind, Guard, Result};
use tokio::task::JoinHandle;

use crate::scripted::{Script, Shown, busy, client, entry, held, ms, pass, released, unknown};
use crate::{TTL, lock};

// Proves: wait-ends
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_quiet_contender_learns_the_holder() {
    let error = told_behind_a_quiet_contender(Shown::Holder(theirs())).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.to_string().contains("deploy@web-3"), "{error}");
}

// Proves: wait-ends
/// Votes that are split, or a release without a notification: that is contention too, although there is no holder to
/// name.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_contender_learns_of_no_holder() {
    let error = told_behind_a_quiet_contender(Shown::NoHolder).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.to_string().contains("another caller of this client was before this one"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_contender_learns_of_server_silence() {
    let error = told_behind_a_quiet_contender(Shown::NoAnswer).await;
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
}

/// The server had no time to answer this caller, but it had answered the caller before it (found by simulation, seed
/// 20781142305).
#[tokio::test(start_paused = true)]
async fn a_timeout_at_the_waiters_turn_names_the_holder() {
    let QuietContender { script, client, contender } = quiet_contender().await;
    *script.shown.lock().unwrap() = Shown::Holder(theirs());
    *script.attempts.lock().unwrap() = [unknown(ms(100))].into();
    let behind = client.lock("n").ttl(TTL).wait(ms(150)).build().unwrap();
    let behind = tokio::spawn(async move { behind.acquire().await.map(drop).unwrap_err() });
    pass(ms(149)).await;
    let asked = script.times_of("attempt").len();
    contender.abort();
    let error = behind.await.unwrap();
    assert_eq!(script.times_of("attempt").len(), asked + 1, "it got its turn");
    assert!(error.to_string().contains("deploy@web-3"), "{error}");
}

/// An answer that was long on its way describes the time before this caller came (found by simulation, seed 1008962).
#[tokio::test(start_paused = true)]
async fn an_old_answer_shows_later_callers_no_holder() {
    let script = Script::new([(ms(100), busy().1)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let first = lock(&client);
    let contender = tokio::spawn(async move { first.acquire().await.map(drop) });
    pass(ms(60)).await;
    // The contender's first answer comes at 100, its second after 200.
    let late = client.lock("n").ttl(TTL).wait(ms(60)).build().unwrap();
    let error = late.acquire().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("shows no holder"), "{error}");
    let patient = client.lock("n").ttl(TTL).wait(ms(400)).build().unwrap();
    let error = patient.acquire().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("another holder had it"), "{error}");
    contender.abort();
}

fn theirs() -> lock_core::driver::Entry {
    entry("deploy@web-3", ms(60_000), ms(20_000))
}

/// A contender whose last attempt was ten milliseconds ago, and that asks nothing for the next two hundred.
struct QuietContender {
    script: Arc<Script>,
    client: Client,
    contender: JoinHandle<Result<Guard>>,
}

async fn quiet_contender() -> QuietContender {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let client = client(&script).await;
    let front = lock(&client);
    let contender = tokio::spawn(async move { front.acquire().await });
    // By then it attempts four times a second.
    pass(ms(4_000)).await;
    let looks = script.times_of("attempt").len();
    while script.times_of("attempt").len() == looks {
        pass(ms(1)).await;
    }
    pass(ms(10)).await;
    QuietContender { script, client, contender }
}

async fn told_behind_a_quiet_contender(shown: Shown) -> Error {
    let QuietContender { script, client, contender } = quiet_contender().await;
    *script.shown.lock().unwrap() = shown;
    let looks = script.times_of("attempt").len();
    let behind = client.lock("n").ttl(TTL).wait(ms(150)).build().unwrap();
    let error = behind.acquire().await.map(drop).unwrap_err();
    assert_eq!(script.times_of("attempt").len(), looks, "the contender asked again in between");
    contender.abort();
    error
}
