//! A server that refuses every lock, as a backend's own tests make one: what its clients say of it.

use std::time::{Duration, Instant};

use lock_core::Client;
use lock_core::driver::{Finding, Level};

use crate::assert_in_time;
use crate::timing::Answered;

/// The longest time that a refusal may take: no patience, and no wait.
const SOON: Duration = Duration::from_secs(2);
/// Long enough for a first answer on a busy machine.
const WAIT: Duration = Duration::from_secs(1);

/// Asserts that the server refuses every lock for this client, and that the client says so, each time with `why`: `check`
/// calls it bad, and a caller is told that it was refused. Returns what `check` has found.
///
/// # Panics
///
/// If one of them does not, or has to wait for an answer that does not come.
pub async fn is_told(client: &Client, why: &str) -> Vec<Finding> {
    let findings = is_found(client, why).await;
    let (asked, lock) =
        (Instant::now(), client.lock("refused").wait(WAIT).build().expect("such terms are allowed"));
    let error = lock.acquire().await.expect_err("every lock is refused");
    assert_in_time!(asked.elapsed() < SOON, "after {:?}: {error}", asked.elapsed());
    assert!(error.is_refusal() && !error.message().contains("not answered"), "{error:?}");
    assert!(error.message().contains(why), "{error}");
    findings
}

/// Asserts that `check` calls the server bad, with `why`, and does not wait for an answer that does not come. Returns what
/// it has found.
///
/// # Panics
///
/// If it does not.
pub async fn is_found(client: &Client, why: &str) -> Vec<Finding> {
    let asked = Instant::now();
    let findings = client.check().answered().await;
    assert_in_time!(asked.elapsed() < SOON, "check took {:?}", asked.elapsed());
    let says_why = |finding: &Finding| finding.level == Level::Bad && finding.message.contains(why);
    assert!(findings.iter().any(says_why), "no bad finding says {why:?}: {findings:#?}");
    findings
}
