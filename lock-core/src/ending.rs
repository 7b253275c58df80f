//! The endings of a hold, and the reasons why a lock is lost.

use std::fmt;

use crate::error::Error;

/// The ending of a hold.
///
/// It is information, and needs no reaction: the lock is released in both cases. Before work that must not be done
/// without the lock, check the lock by [`Guard::check`](crate::Guard::check), or the fencing token at the resource.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(guard: onelock::Guard) -> onelock::Result<()> {
/// use onelock::Ending;
///
/// match guard.release().await {
///     Ending::Released => println!("held until the end"),
///     Ending::Expired => println!("the lease had ended before"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The lock was held until it was released.
    Released,
    /// The lease had ended before the release, or ended before the server could be asked.
    Expired,
}

impl Ending {
    /// Returns one lower-case word: the value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Expired => "expired",
        }
    }
}

/// The state of the slot of work that is done ([`PeriodicGuard::complete`](crate::PeriodicGuard::complete)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No other client gets the lock before the slot's end.
    Kept,
    /// The slot was over already, so there was nothing to keep, and the lock was released. The run counts for the slot
    /// in which it began.
    SlotOver,
    /// The lock was lost before, or the server did not answer until the lease ended. The slot may be kept or not.
    Lost,
}

/// Why a lock was lost.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(guard: onelock::Guard) -> onelock::Result<()> {
/// use onelock::LossReason;
///
/// let cause = guard.lost().await;
/// println!("stopped: {cause}"); // for people
/// if cause == LossReason::Revoked {
///     println!("an operator took the lock");
/// }
/// # Ok(()) }
/// ```
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
    /// The lease could not be renewed in time: it has ended, or will end before an answer can come.
    Expired,
    /// The lock was held for as long as `max_hold` allows.
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
        let advice = match self {
            LossReason::Expired => {
                "; the server did not answer, or code that blocks kept this client's runtime from renewing (see \
                 Options::dedicated)"
            }
            _ => "",
        };
        Error::lost(format!("the lock was lost: {self}{advice}"))
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
