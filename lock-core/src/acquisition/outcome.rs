//! The outcome of an acquisition, for its caller.

use super::guard_link::GuardEnd;
use crate::driver::HoldCount;
use crate::error::Error;
use crate::local_queue::Seen;
use crate::owner::Owner;
use crate::token::FencingToken;

/// The outcome of an acquisition.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    Granted(T),
    /// Another owner holds the lock, or the caller's wait is over. Has what was last seen of the lock.
    NotGranted(Seen),
    Failed(Error),
}

impl<T> Outcome<T> {
    /// Returns the same outcome with what `change` makes of a grant.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Granted(granted) => Outcome::Granted(change(granted)),
            Outcome::NotGranted(seen) => Outcome::NotGranted(seen),
            Outcome::Failed(error) => Outcome::Failed(error),
        }
    }
}

/// The answer to a caller.
pub(crate) type Answer = Outcome<GuardParts>;

/// The parts of a guard.
#[derive(Debug)]
pub(crate) struct GuardParts {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) guard_end: GuardEnd,
    pub(crate) holds: HoldCount,
}
