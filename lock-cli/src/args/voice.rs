//! The verbosity of a call on stderr.

/// The verbosity of a call on stderr while it waits and when it has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Nothing while it waits, and nothing if another client has the lock. Failures and losses are still said.
    Quiet,
    /// What it waits for.
    Usual,
    /// Also on which server it has acquired the lock, and with which token.
    Verbose,
}
