//! A lock that is left to its lease: what is asked of the server, and what is refused.

use std::sync::Arc;

use lock_core::driver::{Entry, Lease};
use lock_core::{Client, ErrorKind, FencingToken, OwnerBytes, Reentrant};

use crate::scripted::{Script, Shown, client, granted, held, ms, now, pass, released, unknown};
use crate::{PATIENCE, TTL, lock};

/// A script whose server shows its holder, with this token.
fn script(token: u64) -> Arc<Script> {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let mut shown = Entry::new(OwnerBytes::new(*b"as the server has it"));
    shown.token = FencingToken::new(token);
    *script.shown.lock().unwrap() = Shown::Holder(shown);
    script
}

/// Fails the test if anything more is asked of the server.
async fn nothing_follows(script: &Script, client: &Client) {
    let asked = script.log().len();
    assert_eq!(client.shutdown(ms(1)).await, 0, "the claim has ended");
    pass(TTL * 3).await;
    assert_eq!(script.log().len(), asked, "{:?}", script.log());
}

// Proves: leave
#[tokio::test(start_paused = true)]
async fn a_left_lock_is_neither_renewed_nor_released() {
    let script = script(7);
    let client = client(&script).await;
    let guard = lock(&client).acquire().await.unwrap();
    guard.renew(TTL * 2).await.unwrap();
    assert_eq!(guard.leave().await.unwrap().as_bytes(), b"as the server has it");
    assert!(script.times_of("release").is_empty(), "{:?}", script.log());
    nothing_follows(&script, &client).await;
}

// Proves: leave
/// An attempt that came to the server after the release of the other process would take the lock for a whole ttl.
#[tokio::test(start_paused = true)]
async fn a_client_outlasts_an_attempt_before_leaving_it() {
    let script = script(7);
    *script.attempts.lock().unwrap() = [unknown(ms(100)), granted(TTL)].into();
    let client = client(&script).await;
    let began = now();
    let guard = lock(&client).acquire().await.unwrap();
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", script.log());
    guard.leave().await.unwrap();
    assert!(began.elapsed() >= PATIENCE, "{:?}", script.log());
    nothing_follows(&script, &client).await;
}

// Proves: leave
#[tokio::test(start_paused = true)]
async fn what_cannot_be_left_is_released() {
    let taken = script(8);
    let of_client = client(&taken).await;
    let guard = lock(&of_client).acquire().await.unwrap();
    assert_eq!(guard.leave().await.unwrap_err().kind(), ErrorKind::Lost, "another one holds it");
    assert_eq!(of_client.shutdown(TTL).await, 0);
    assert_eq!(taken.times_of("release").len(), 1);

    let of_session = script(7);
    of_session.lease.set(Lease::Session).unwrap();
    let of_client = client(&of_session).await;
    let guard = lock(&of_client).acquire().await.unwrap();
    assert_eq!(guard.leave().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(of_client.shutdown(TTL).await, 0);
    assert_eq!(of_session.times_of("release").len(), 1);

    let of_lock = script(7);
    let of_client = client(&of_lock).await;
    let guard = of_client.lock("n").ttl(TTL).max_hold(TTL).build().unwrap().acquire().await.unwrap();
    assert_eq!(guard.leave().await.unwrap_err().kind(), ErrorKind::Invalid, "it has a max_hold");
    let entered = of_client.lock("n").ttl(TTL).reentrant(&Reentrant::new()).build().unwrap();
    let (outer, inner) = (entered.acquire().await.unwrap(), entered.acquire().await.unwrap());
    assert_eq!(inner.leave().await.unwrap_err().kind(), ErrorKind::Invalid, "it has another guard");
    outer.leave().await.unwrap();
}
