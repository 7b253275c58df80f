//! Checks the patience that a URL sets, on a server that has stopped answering.

use std::time::{Duration, Instant};

use lock_core::{Client, ErrorKind};

use crate::assert_in_time;

/// Fails the test unless a call of this client takes `patience`, which its URL sets, and not the time that the ttl
/// would allow. The server must have stopped answering.
///
/// # Panics
///
/// If the call ends sooner than after half of `patience` or later than after twice that time, or with another error
/// than [`ErrorKind::Unavailable`].
pub async fn is_the_urls(client: &Client, patience: Duration) {
    let lock = client.lock("asked for in vain").build().expect("the default terms are fine");
    let (shortest, longest) = (patience / 2, patience * 2);
    assert!(lock.ttl() / 3 > longest, "{patience:?} is too near to what the ttl would allow for");
    let asked = Instant::now();
    let error = lock.try_acquire().await.map(drop).expect_err("the server has stopped answering");
    let took = asked.elapsed();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
    assert!(took >= shortest, "given up after {took:?}: the URL allows for {patience:?}");
    assert_in_time!(took < longest, "given up after {took:?}: the URL allows for {patience:?}");
}
