//! What a claim's life tells its caller, and what a guard asks of it.

use std::time::Duration;

use tokio::sync::oneshot;

use super::tie::Grip;
use crate::clock::Instant;
use crate::driver::HoldCount;
use crate::ending::{Completion, Ending};
use crate::error::{Error, Result};
use crate::local_queue::Seen;
use crate::owner::Owner;
use crate::token::FencingToken;

/// How an acquisition ends.
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
pub(crate) type Answer = Outcome<Granted>;

/// What a guard is made of.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) grip: Grip,
    pub(crate) holds: HoldCount,
}

/// What a guard asks of the claim. The end of the guard asks for a release.
#[derive(Debug)]
pub(crate) enum Command {
    Renew {
        ttl: Duration,
        asked: Instant,
        reply: oneshot::Sender<Result<Duration>>,
    },
    Release(oneshot::Sender<GivenUp>),
    /// To keep the lock until the end of its slot, because the work is done.
    Complete(oneshot::Sender<GivenUp>),
}

/// How a claim has given up its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    Released,
    /// It is taken until its slot's end.
    Kept,
    Expired,
}

impl GivenUp {
    /// Returns how the hold ended. A slot that is kept was held until then.
    pub(crate) fn ending(self) -> Ending {
        match self {
            GivenUp::Released | GivenUp::Kept => Ending::Released,
            GivenUp::Expired => Ending::Expired,
        }
    }

    /// Returns what became of the slot of work that is done.
    pub(crate) fn completion(self) -> Completion {
        match self {
            GivenUp::Kept => Completion::Kept,
            GivenUp::Released => Completion::SlotOver,
            GivenUp::Expired => Completion::Lost,
        }
    }
}
