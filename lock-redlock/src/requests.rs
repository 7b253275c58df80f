//! Requests to several nodes, under way at the same time.

use std::fmt;
use std::mem;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

/// Requests to several nodes, each of which gives a `T`. The task that waits for them also sends them, so that an answer
/// wakes that task and no other.
///
/// Every request runs to completion: those that are unanswered when this is dropped go on in a task.
pub(crate) struct Requests<T: Send + 'static>(FuturesUnordered<BoxFuture<'static, T>>);

impl<T: Send + 'static> Requests<T> {
    pub(crate) fn new() -> Requests<T> {
        Requests(FuturesUnordered::new())
    }

    /// Adds a request. It is sent when the next answer is waited for.
    pub(crate) fn push(&mut self, request: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(request));
    }

    /// Returns the next answer, in the order in which they arrive; `None` if all requests have been answered.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        self.0.next().await
    }
}

impl<T: Send + 'static> Drop for Requests<T> {
    fn drop(&mut self) {
        let mut rest = mem::take(&mut self.0);
        if rest.is_empty() {
            return;
        }
        // Without a runtime, no connection works any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { while rest.next().await.is_some() {} });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Requests<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("unanswered", &self.0.len()).finish()
    }
}
