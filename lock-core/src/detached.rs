//! Calls of clients whose futures must not be dropped half-way.

use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Done, Error, Result};

/// How much longer than its patience a call may hang before its task is aborted.
const GRACE: Duration = Duration::from_secs(1);

/// Runs `call` in a task of its own and answers with it, or with `Unavailable` (outcome unknown) after `patience`.
///
/// Some drivers corrupt a connection or a session when a future of theirs is dropped. Here the task goes on by itself:
/// what the call borrowed comes back when it ends. One that hangs for a second longer is aborted; dropping its
/// connection then closes the socket. Cancel safe in the same way.
pub async fn detached<T: Send + 'static>(
    clock: &Clock,
    patience: Duration,
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let within = clock.clone();
    let task = tokio::spawn(async move { within.timeout(patience.saturating_add(GRACE), call).await });
    match clock.timeout(patience, task).await {
        Some(Ok(Some(outcome))) => outcome,
        Some(Ok(None)) | None => {
            Err(Error::unavailable(Done::Unknown, format!("the server did not answer within {patience:?}")))
        }
        Some(Err(e)) => Err(Error::unavailable(Done::Unknown, "the call's task ended early").with_source(e)),
    }
}
