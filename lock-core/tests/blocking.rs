//! Blocking calls in the wrong place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test needs little of it")]
mod scripted;

use scripted::{Script, client, granted, held, ms, released};

#[tokio::test]
#[should_panic(expected = "runtime")]
async fn they_refuse_to_stop_async_code() {
    let script = Script::new([granted(ms(3000))], [held(ms(3000))], [released()]);
    let lock = client(&script).await.lock("n").build().unwrap();
    drop(lock.blocking_acquire());
}
