//! How a client of the driver's is let go of.
//!
//! With its last handle the driver ends its sessions on the server, by a request that a task of its own sends. If the
//! runtime ends at that moment, as it does where a program drops its client as its last act, the task finds the driver's
//! other tasks gone, and panics. So the last handle stays for a moment longer, and is never dropped if the runtime ends
//! meanwhile: the connections go with it, and the server ends the sessions after half an hour.

use std::time::Duration;

use lock_core::Clock;
use mongodb::Client;
use tokio::runtime::Handle;

/// How long the runtime has to live on: nobody ends it because of the client that has just been dropped.
const MOMENT: Duration = Duration::from_millis(100);

/// Sees to the driver's end when it is dropped.
#[derive(Debug)]
pub(crate) struct Farewell {
    client: Client,
    clock: Clock,
    runtime: Handle,
}

impl Farewell {
    /// Of a client that was made on the present runtime.
    pub(crate) fn of(client: Client, clock: Clock) -> Farewell {
        Farewell { client, clock, runtime: Handle::current() }
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let (last, clock) = (Last(Some(self.client.clone())), self.clock.clone());
        // Where the runtime has ended already, it is dropped at once.
        self.runtime.spawn(async move {
            clock.sleep(MOMENT).await;
            last.go();
        });
    }
}

/// A handle that outlives its runtime.
struct Last(Option<Client>);

impl Last {
    fn go(mut self) {
        self.0.take();
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            std::mem::forget(client);
        }
    }
}
