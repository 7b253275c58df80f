//! A waker for tests, which counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Polls a future that is not done. From then on, it wakes this.
    pub(crate) fn poll<T>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) {
        let waker = Waker::from(self.clone());
        assert!(poll(&mut Context::from_waker(&waker)).is_pending());
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
