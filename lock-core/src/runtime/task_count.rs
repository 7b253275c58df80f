//! The number of a client's claims that are alive.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Counts the claims that are alive.
#[derive(Debug, Default)]
pub(crate) struct TaskCount {
    count: AtomicUsize,
    changed: Notify,
}

/// One claim. It is counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct CountedTask(Arc<TaskCount>);

impl TaskCount {
    pub(crate) fn enter(self: &Arc<Self>) -> CountedTask {
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.changed.notify_waiters();
        }
        CountedTask(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Resolves when no claim is alive.
    pub(crate) async fn wait_until_empty(&self) {
        self.wait_until(|count| count == 0).await;
    }

    /// Resolves when a claim is alive.
    pub(crate) async fn wait_until_not_empty(&self) {
        self.wait_until(|count| count > 0).await;
    }

    async fn wait_until(&self, there: impl Fn(usize) -> bool) {
        let mut changed = pin!(self.changed.notified());
        std::future::poll_fn(|context| {
            loop {
                // Registered before the count is read, so that a change in between is not missed.
                let woken = changed.as_mut().poll(context).is_ready();
                if there(self.count()) {
                    return Poll::Ready(());
                }
                if !woken {
                    return Poll::Pending;
                }
                changed.set(self.changed.notified());
            }
        })
        .await;
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}
