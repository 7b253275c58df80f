//! The process to which a client belongs. A fork has a copy of everything but the threads, and must not use any of it.

use crate::os;

/// The process that opened a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(os::process())
    }

    /// Returns whether the current process is another one, that is, a fork.
    pub(crate) fn is_another(self) -> bool {
        self.0 != os::process()
    }

    /// Resolves in this process, and never in a fork that goes on with a copy of its runtime. Has to be awaited before
    /// every request to the server.
    pub(crate) async fn only(self) {
        if self.is_another() {
            std::future::pending::<()>().await;
        }
    }
}
