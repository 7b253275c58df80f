//! The patience that a URL names, asked of a server that has stopped answering.

use std::time::{Duration, Instant};

use lock_core::{Client, ErrorKind};

use crate::assert_in_time;

/// Fails unless a call of this client's takes `patience`, which its URL names, and not what the ttl would allow for.
/// The server must have stopped answering.
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
