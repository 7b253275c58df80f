//! Which process a client belongs to. A fork has a copy of everything but the threads, and none of it is the fork's.

use crate::os;

/// The process that opened a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(os::process())
    }

    /// Whether a fork of it asks.
    pub(crate) fn is_another(self) -> bool {
        self.0 != os::process()
    }

    /// Resolves in this process, and never in a fork that goes on with a copy of its runtime: to be awaited before
    /// whatever the server is asked.
    pub(crate) async fn only(self) {
        if self.is_another() {
            std::future::pending::<()>().await;
        }
    }
}
