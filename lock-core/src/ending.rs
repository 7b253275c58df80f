//! How a hold ends, and why a lock is lost.

use std::fmt;

use crate::error::Error;

/// How a hold ended.
///
/// It is information, and needs no reaction: in all cases the caller holds the lock no more. Before work that must not be done
/// without the lock, check the lock by [`Guard::check`](crate::Guard::check), or the fencing token at the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lock was held until it was released.
    Released,
    /// The lease had ended before the release, or ended before the server could be asked.
    Expired,
    /// The work of a [`PeriodicLock`](crate::PeriodicLock) is done, and the lock stays taken until its slot ends. No
    /// other call than [`PeriodicGuard::complete`](crate::PeriodicGuard::complete) ends this way.
    Kept,
}

impl Ending {
    /// Returns one lower-case word: the value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Expired => "expired",
            Ending::Kept => "kept",
        }
    }
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// A client revoked it.
    Revoked,
    /// Another owner holds it.
    Taken,
    /// The server no longer knows of it.
    Gone,
    /// The session in which it was held has ended.
    Session,
    /// It could not be renewed in time: the lease has ended, or will end before an answer can come.
    Expired,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// The task that renewed it has ended: with its runtime, or because the driver panicked. Also the cause in a fork,
    /// where the task belongs to the parent process.
    RuntimeEnded,
}

impl LossReason {
    /// Returns one lower-case word: the value of the metric's label, and what JSON output shows.
    pub fn as_str(self) -> &'static str {
        match self {
            LossReason::Revoked => "revoked",
            LossReason::Taken => "taken",
            LossReason::Gone => "gone",
            LossReason::Session => "session",
            LossReason::Expired => "expired",
            LossReason::MaxHold => "max_hold",
            LossReason::RuntimeEnded => "runtime_ended",
        }
    }

    /// Returns the error for a caller that needs the lost lock.
    pub(crate) fn to_error(self) -> Error {
        Error::lost(format!("the lock was lost: {self}"))
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Revoked => "it was revoked",
            LossReason::Taken => "another owner holds it",
            LossReason::Gone => "the server no longer knows of it",
            LossReason::Session => "the session with the server has ended",
            LossReason::Expired => "it could not be renewed in time",
            LossReason::MaxHold => "it was held for as long as max_hold allows",
            LossReason::RuntimeEnded => "the task that renewed it has ended, with its runtime or in a panic",
        })
    }
}
