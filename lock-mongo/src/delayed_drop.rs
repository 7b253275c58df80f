//! Delays the drop of a `mongodb::Client`.
//!
//! When the last handle of a client is dropped, the `mongodb` crate ends the client's sessions on the server. A task of
//! the crate sends that request. If the runtime ends at that moment, because a program drops its client right before it
//! ends, the task finds the crate's other tasks gone, and panics. So this module keeps the last handle for a moment
//! longer and never drops it if the runtime ends in that time. The connections end with the runtime, and the server
//! ends the sessions after half an hour.

use std::time::Duration;

use lock_core::Clock;
use mongodb::Client;
use tokio::runtime::Handle;

/// The time for which the last handle is kept. A runtime that still runs after this time is not about to end with the
/// client.
const DELAY: Duration = Duration::from_millis(100);

/// Keeps the last handle of a `mongodb::Client` for [`DELAY`] when it is dropped itself.
#[derive(Debug)]
pub(crate) struct DelayedDrop {
    client: Client,
    clock: Clock,
    runtime: Handle,
}

impl DelayedDrop {
    /// For a client that was created on the current runtime.
    pub(crate) fn of(client: Client, clock: Clock) -> DelayedDrop {
        DelayedDrop { client, clock, runtime: Handle::current() }
    }
}

impl Drop for DelayedDrop {
    fn drop(&mut self) {
        let (last, clock) = (LastHandle(Some(self.client.clone())), self.clock.clone());
        // If the runtime has ended already, the task is dropped at once, and `LastHandle` leaks the handle.
        self.runtime.spawn(async move {
            clock.sleep(DELAY).await;
            last.drop_handle();
        });
    }
}

/// A handle that is leaked, unless [`LastHandle::drop_handle`] drops it.
struct LastHandle(Option<Client>);

impl LastHandle {
    fn drop_handle(mut self) {
        self.0.take();
    }
}

impl Drop for LastHandle {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            std::mem::forget(client);
        }
    }
}
