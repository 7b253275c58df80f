//! A list that takes many requests, as a backend's own tests make one.

use std::time::{Duration, Instant};

use lock_core::Client;

use crate::proxy::{Direction, Proxy};
use crate::timing::Answered;

/// Asserts that a list of the one lock that is held may take longer than the client's patience, because each of its requests
/// has a patience of its own, and that a list without an answer says how many of `what` were read. The client goes through
/// the proxy, which delays each answer by `delay`.
///
/// # Panics
///
/// If it is not so.
pub async fn has_a_patience_for_each_request(
    client: &Client,
    patience: Duration,
    proxy: &Proxy,
    delay: Duration,
    what: &str,
) {
    proxy.delay(Direction::ToClient, delay);
    let began = Instant::now();
    let listed = client.list("").answered().await;
    assert!(began.elapsed() > patience, "a list of {:?} shows nothing", began.elapsed());
    assert_eq!(listed.len(), 1, "{listed:?}");

    proxy.hold(Direction::ToClient);
    let error = client.list("").await.expect_err("no answer comes");
    let says_how_many = error.message().contains(&format!("0 {what} were read before"));
    assert!(error.is_transient() && says_how_many, "{error}");
    assert!(!error.may_have_taken_effect(), "{error:?}");
    proxy.deliver(Direction::ToClient);
}
