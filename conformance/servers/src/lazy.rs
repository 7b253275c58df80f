//! Checks what `lazy=true` and `connect_wait` in a URL change, on a server that is down.

use std::pin::pin;
use std::time::Duration;

use lock_conformance::Data;
use lock_conformance::timing::Answered;
use lock_core::{Client, Effect, ErrorKind, Result};

use crate::owned::Owned;

const NOT_DONE: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

/// Kills the server, and fails the test unless opening a client fails then. Returns a client that was opened lazily.
///
/// `url` leads to the server and has parameters, one of which is a short `patience`.
///
/// # Panics
///
/// If a client is opened that is not lazy, or fails with another error, or if a lazy client is not opened.
pub async fn client_of_a_dead_server(
    server: &Owned,
    url: &str,
    connect: impl AsyncFn(&str) -> Result<Client>,
) -> Client {
    server.kill().expect("it runs");
    for eager in ["", "&lazy=false"] {
        let error = connect(&format!("{url}{eager}")).await.map(drop).expect_err("the server is dead");
        assert_eq!(error.kind(), NOT_DONE, "{error}");
    }
    connect(&format!("{url}&lazy=true")).await.expect("nothing was asked of the server")
}

/// Fails the test unless this lazy client finds its server once it is back. Starts the server again, with its data.
///
/// # Panics
///
/// If a lock is acquired while the server is dead, or fails with another error than [`ErrorKind::Unavailable`], or if it
/// is not acquired afterwards.
pub async fn finds_its_server(client: &Client, server: &Owned, ttl: Duration) {
    let lock = client.lock("a").ttl(ttl).build().expect("fine terms");
    let error = lock.try_acquire().await.map(drop).expect_err("the server is dead");
    assert_eq!(error.kind(), NOT_DONE, "{error}");
    server.restart(Data::Kept).expect("it starts again");
    drop(lock.acquire().answered().await);
}

/// Kills the server, and starts it again, with its data, while a client waits for it. Fails the test unless the client is
/// opened then.
///
/// `url` leads to the server and has parameters, one of which is a `patience` of a second.
///
/// # Panics
///
/// If opening ends before the server is back, or is not done afterwards.
pub async fn opens_when_its_server_comes(
    server: &Owned,
    url: &str,
    connect: impl AsyncFn(&str) -> Result<Client>,
) {
    server.kill().expect("it runs");
    let url = format!("{url}&connect_wait=120s");
    let mut opening = pin!(connect(&url));
    // A client that does not wait has its error after one patience.
    let early = tokio::time::timeout(Duration::from_secs(2), opening.as_mut()).await;
    assert!(early.is_err(), "it did not wait for its server: {early:?}");
    server.restart(Data::Kept).expect("it starts again");
    drop(opening.answered().await);
}
