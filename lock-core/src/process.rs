//! The process to which a client belongs. A fork has a copy of everything but the threads, and must not use any of it.

use crate::os;

/// The process that opened a client, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// Returns the current process.
    pub fn this() -> Process {
        Process(os::process())
    }

    /// Returns whether the current process is another one, that is, a fork. What the client has opened is then a copy,
    /// which owns nothing, and nothing must be sent for it.
    pub fn is_another(self) -> bool {
        self.0 != os::process()
    }

    /// Resolves in this process, and never in a fork that goes on with a copy of its runtime. Has to be awaited before
    /// every request to the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn only(self) {
        if self.is_another() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns a process that is not the current one.
    #[cfg(test)]
    pub(crate) fn another() -> Process {
        Process(!os::process())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn this_process_goes_on_and_a_fork_does_not() {
        assert!(!Process::this().is_another() && Process::this().only().now_or_never().is_some());
        assert!(Process::another().is_another() && Process::another().only().now_or_never().is_none());
    }
}
