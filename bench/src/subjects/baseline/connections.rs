//! As many connections as the library opens, each used by one statement at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open connections.
#[derive(Debug)]
pub(super) struct Connections<C> {
    idle: Arc<Mutex<Vec<C>>>,
    free: Arc<Semaphore>,
}

/// A borrowed connection. It is given back when dropped.
#[derive(Debug)]
pub(super) struct Borrowed<C> {
    connection: Option<C>,
    idle: Arc<Mutex<Vec<C>>>,
    /// Released after the connection is back: the next borrower finds it there.
    _permit: OwnedSemaphorePermit,
}

impl<C> Connections<C> {
    pub(super) fn new(connections: Vec<C>) -> Connections<C> {
        let free = Arc::new(Semaphore::new(connections.len()));
        Connections { idle: Arc::new(Mutex::new(connections)), free }
    }

    pub(super) async fn borrow(&self) -> Borrowed<C> {
        let permit = self.free.clone().acquire_owned().await.expect("the semaphore is never closed");
        // The one used last, as the library does.
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { connection, idle: self.idle.clone(), _permit: permit }
    }
}

const THERE: &str = "there are as many permits as connections";

impl<C> Deref for Borrowed<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect(THERE)
    }
}

impl<C> DerefMut for Borrowed<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect(THERE)
    }
}

impl<C> Drop for Borrowed<C> {
    fn drop(&mut self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
    }
}
