//! Requests that callers make in one moment are batched, so that one request can serve all of them.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Items that wait for the task that takes them.
#[derive(Debug)]
pub struct Batcher<T>(Arc<Mutex<Vec<T>>>);

/// The items of one moment. The task that has this takes them with [`all`](Self::all).
///
/// A runtime that ends drops its tasks. If this is dropped, so are the items that wait; otherwise all later ones would wait
/// for a task that is gone. An item therefore has what tells its caller that it was dropped, such as the sender of a channel.
#[derive(Debug)]
#[must_use = "the items wait until it is used"]
pub struct Batch<T>(Option<Batcher<T>>);

impl<T> Batcher<T> {
    /// Adds an item. For the first one of a moment, returns what a task has to take: the caller spawns that task.
    pub fn add(&self, item: T) -> Option<Batch<T>> {
        let mut items = self.items();
        items.push(item);
        (items.len() == 1).then(|| Batch(Some(Batcher(self.0.clone()))))
    }

    fn items(&self) -> MutexGuard<'_, Vec<T>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Batcher<T> {
    fn default() -> Batcher<T> {
        Batcher(Arc::default())
    }
}

impl<T> Batch<T> {
    /// Yields once, so that every task that is ready to run can add its own item, and returns all.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the items are.
    pub async fn all(mut self) -> Vec<T> {
        tokio::task::yield_now().await;
        self.0.take().map(|gathering| mem::take(&mut *gathering.items())).unwrap_or_default()
    }
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        if let Some(gathering) = &self.0 {
            // They are dropped without the lock: they may wake tasks.
            let left = mem::take(&mut *gathering.items());
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_of_a_moment_takes_all() {
        let gathering = Batcher::default();
        let first = gathering.add(1).expect("it is the first");
        assert!(gathering.add(2).is_none());
        let (taken, ()) = tokio::join!(first.all(), async { assert!(gathering.add(3).is_none()) });
        assert_eq!(taken, [1, 2, 3]);
        assert!(gathering.add(4).is_some(), "another moment begins");
    }

    #[tokio::test]
    async fn items_that_no_task_will_take_are_dropped() {
        let gathering = Batcher::default();
        drop(gathering.add(1));
        assert_eq!(gathering.add(2).expect("it is the first").all().await, [2]);
    }
}
