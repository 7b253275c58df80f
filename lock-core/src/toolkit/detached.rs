//! Calls of client libraries whose futures must not be dropped half-way.

use std::time::Duration;

use tokio::sync::oneshot;

use super::call::unanswered;
use crate::clock::Clock;
use crate::error::{Effect, Error, Result};

/// The time beyond its patience that a call may take before its task is aborted.
const GRACE: Duration = Duration::from_secs(1);

/// Runs `call` in a task of its own, which starts at once, and returns its result.
///
/// Some drivers corrupt a connection or a session when one of their futures is dropped. Here the task goes on by
/// itself: what the call borrowed comes back when the call ends. A call that takes a second longer than `patience` is
/// aborted; dropping its connection then closes the socket.
///
/// # Errors
///
/// `Unavailable` with [`Effect::Unknown`] if the call has not ended within `patience`, or if its task ended early.
/// Otherwise the error of the call.
///
/// # Cancel safety
///
/// If the returned future is dropped, the task goes on in the same way.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn detached<T: Send + 'static, F>(
    clock: &Clock,
    patience: Duration,
    call: F,
) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let (within, mut call) = (clock.clone(), Box::pin(call));
    let (reply, answer) = oneshot::channel();
    // One timer serves the call and its caller, because a timer is set and taken back for each call.
    tokio::spawn(async move {
        let Some(outcome) = within.timeout(patience, &mut call).await else {
            // The caller may have gone.
            let _ = reply.send(Err(unanswered(Effect::Unknown, patience)));
            within.timeout(GRACE, call).await;
            return;
        };
        let _ = reply.send(outcome);
    });
    let ended = |_| Err(Error::unavailable(Effect::Unknown, "the call's task ended early"));
    async move { answer.await.unwrap_or_else(ended) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Sets its flag when it is dropped before it was done.
    struct Undone(Arc<AtomicBool>);

    impl Drop for Undone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// Returns a call that takes this long, a flag for its end, and a flag for being cut off.
    fn call(takes: Duration) -> (impl Future<Output = Result<u8>> + Send, Arc<AtomicBool>, Arc<AtomicBool>) {
        let (done, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (finished, undone) = (done.clone(), Undone(cut.clone()));
        let call = async move {
            Clock::system().timeout(takes, std::future::pending::<()>()).await;
            finished.store(true, Ordering::SeqCst);
            std::mem::forget(undone);
            Ok(7)
        };
        (call, done, cut)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_in_time_is_answered() {
        let (call, ..) = call(Duration::from_millis(50));
        assert_eq!(detached(&Clock::system(), Duration::from_millis(100), call).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_call_is_unknown_and_goes_on() {
        let (call, done, cut) = call(Duration::from_millis(900));
        let clock = Clock::system();
        let error = detached(&clock, Duration::from_millis(100), call).await.unwrap_err();
        assert!(error.may_have_taken_effect(), "{error:?}");
        assert!(!done.load(Ordering::SeqCst));
        clock.timeout(Duration::from_secs(5), std::future::pending::<()>()).await;
        assert!(done.load(Ordering::SeqCst) && !cut.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_call_is_cut_off_after_one_second() {
        let (call, done, cut) = call(Duration::from_secs(3600));
        let clock = Clock::system();
        assert!(detached(&clock, Duration::from_millis(100), call).await.is_err());
        assert!(!cut.load(Ordering::SeqCst));
        clock.timeout(Duration::from_secs(5), std::future::pending::<()>()).await;
        assert!(cut.load(Ordering::SeqCst) && !done.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_does_not_cut_it_off() {
        let (call, done, _) = call(Duration::from_millis(50));
        let clock = Clock::system();
        let mut asking = Box::pin(detached(&clock, Duration::from_millis(100), call));
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(
                asking.as_mut().poll(context).is_pending()
            ))
            .await
        );
        drop(asking);
        clock.timeout(Duration::from_secs(5), std::future::pending::<()>()).await;
        assert!(done.load(Ordering::SeqCst));
    }
}
