//! Orders of a guard to its claim, and the end that the claim reports.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::ending::{Completion, Ending};
use crate::error::Result;

/// A guard's command to its claim. The end of the guard is a command to release.
#[derive(Debug)]
pub(crate) enum Command {
    Renew {
        ttl: Duration,
        asked: Instant,
        reply: oneshot::Sender<Result<Duration>>,
    },
    Release(oneshot::Sender<ReleaseOutcome>),
    /// To keep the lock until the end of its slot, because the work is done; without a slot, until the end of its lease.
    Complete(oneshot::Sender<ReleaseOutcome>),
}

/// The outcome of a claim's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    Released,
    /// The lock is taken until the end of its slot, or of its lease.
    Kept,
    Expired,
}

impl ReleaseOutcome {
    /// Returns how the hold ended. A slot that is kept was held until then.
    pub(crate) fn ending(self) -> Ending {
        match self {
            ReleaseOutcome::Released | ReleaseOutcome::Kept => Ending::Released,
            ReleaseOutcome::Expired => Ending::Expired,
        }
    }

    /// Returns what became of the slot of work that is done.
    pub(crate) fn completion(self) -> Completion {
        match self {
            ReleaseOutcome::Kept => Completion::Kept,
            ReleaseOutcome::Released => Completion::SlotOver,
            ReleaseOutcome::Expired => Completion::Lost,
        }
    }
}
