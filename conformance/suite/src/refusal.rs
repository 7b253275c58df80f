//! A server that refuses every lock, as a backend's own tests make one: what its clients say of it.

use std::time::{Duration, Instant};

use lock_core::driver::{Finding, Level};
use lock_core::{Client, Error};

use crate::assert_in_time;
use crate::timing::Answered;

/// How long a refusal may take: no patience, and no wait.
const SOON: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_millis(300);

/// Asserts that the server refuses every lock for this client, and that the client says so, each time with `why`: `check`
/// calls it bad, and a caller is told that it was refused. Returns what `check` has found.
///
/// # Panics
///
/// If one of them does not.
pub async fn is_told(client: &Client, why: &str) -> Vec<Finding> {
    let (findings, error) = of(client, why).await;
    assert!(error.message().contains(why), "{error}");
    findings
}

/// Asserts the same, without what the caller is told. Returns that as well.
///
/// # Panics
///
/// If `check` or a caller has to wait for an answer that does not come, or is told so.
pub async fn of(client: &Client, why: &str) -> (Vec<Finding>, Error) {
    let asked = Instant::now();
    let findings = client.check().answered().await;
    assert_in_time!(asked.elapsed() < SOON, "check took {:?}", asked.elapsed());
    let is_found = |finding: &Finding| finding.level == Level::Bad && finding.message.contains(why);
    assert!(findings.iter().any(is_found), "no bad finding says {why:?}: {findings:#?}");
    let lock = client.lock("refused").wait(WAIT).build().expect("the default terms are allowed");
    let error = lock.acquire().await.expect_err("every lock is refused");
    assert_in_time!(asked.elapsed() < SOON * 2, "after {:?}: {error}", asked.elapsed());
    assert!(error.is_refusal() && !error.message().contains("not answered"), "{error:?}");
    (findings, error)
}
