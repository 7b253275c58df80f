//! The answers of a driver.

use std::time::Duration;

use crate::ending::LossReason;
use crate::entry::Entry;
use crate::token::FencingToken;

/// The answer to an attempt.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The owner holds the lock.
    Granted(Grant),
    /// Another owner holds the lock, or is to get it first.
    Busy(Busy),
}

/// The server's grant of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Higher than every earlier token of this name.
    pub token: FencingToken,
    /// The time for which the server keeps the lock, counted from the start of the call. Without any margin: the core
    /// subtracts one, once.
    pub valid_for: Duration,
    /// The part of the lease that had passed before the call began, on this client's clock. The core takes
    /// its margin from the whole lease, this time included.
    ///
    /// Zero if the server's answer itself says how much is left. Not zero if the driver passes on an earlier proof,
    /// such as a session's.
    pub age: Duration,
}

impl Grant {
    /// Makes a grant of which the server's answer itself says how much is left.
    pub fn new(token: FencingToken, valid_for: Duration) -> Grant {
        Grant { token, valid_for, age: Duration::ZERO }
    }

    /// Says that `valid_for` is what an earlier proof has left: its lease had begun this long before the call.
    #[must_use]
    pub fn with_age(self, age: Duration) -> Grant {
        Grant { age, ..self }
    }
}

/// The answer to an attempt that was not granted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Busy {
    /// The claim has a place in the server's queue, which `release` has to give up.
    pub queued: bool,
    /// The time until the present lease ends without a renewal, where the server says so. The core attempts
    /// again at that time.
    pub free_in: Option<Duration>,
    /// The holder, where the answer shows it: a caller whose wait runs out can then be told without another request.
    pub holder: Option<Box<Entry>>,
    /// The claim listens already, and has since before the server looked for this answer. The core then does
    /// not call [`listen`](super::Claim::listen), and waits at once.
    pub listens: bool,
    /// No message will announce the holder's release, although the server pushes other releases: the holder is a
    /// client of another library. The core then looks as often as on a server that pushes nothing.
    pub without_notification: bool,
}

impl Busy {
    /// Says that the claim has a place in the server's queue. [`Busy::default`] says that it has none.
    pub fn queued() -> Busy {
        Busy { queued: true, ..Busy::default() }
    }

    /// Adds when the present lease ends, where the server says so.
    #[must_use]
    pub fn with_free_in(self, free_in: impl Into<Option<Duration>>) -> Busy {
        Busy { free_in: free_in.into(), ..self }
    }

    /// Says that any release which this answer does not show makes [`changed`](super::Claim::changed) resolve.
    #[must_use]
    pub fn and_listens(self) -> Busy {
        Busy { listens: true, ..self }
    }

    /// Says that no message will tell of the holder's release.
    #[must_use]
    pub fn and_without_notification(self) -> Busy {
        Busy { without_notification: true, ..self }
    }

    /// Adds the holder, where the answer shows it.
    #[must_use]
    pub fn with_holder(self, holder: impl Into<Option<Entry>>) -> Busy {
        Busy { holder: holder.into().map(Box::new), ..self }
    }
}

/// The answer to a [takeover](super::Claim::take_over).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The owner holds the lock, and its predecessor does not any more.
    Granted {
        /// The grant.
        grant: Grant,
        /// Another client waits; `None` if the server can't say.
        others: Option<bool>,
    },
    /// The predecessor does not hold the lock. Nothing was changed.
    NotHeld,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lock is this owner's for `valid_for`, counted from the start of the call.
    Held {
        /// The time for which the server keeps the lock, without any margin.
        valid_for: Duration,
        /// The age of the proof, as [`Grant::age`].
        age: Duration,
    },
    /// The lock is not this owner's.
    Lost(LossReason),
}

/// From when on a holder is told that its lock was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Since the grant.
    SinceTheGrant,
    /// From now on. An earlier revoke was not announced, so the core asks the server whether the lock is still held,
    /// until it gets one answer.
    FromNowOn,
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock, or the place in the queue, was this owner's and is released.
    Released {
        /// Another client waits; `None` if the server can't say.
        others: Option<bool>,
    },
    /// The owner had neither the lock nor a queue position.
    NotHeld,
}

/// The answer to a revoke.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// use onelock::{Revoked, When};
///
/// if let Some(holder) = lock.inspect().await?.holder {
///     match lock.revoke(&holder.owner, When::HoldersDeadline).await? {
///         Revoked::FreeIn(left) => println!("free in {left:?} at the latest"),
///         _ => println!("that holder no longer has it"),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The holder can't renew; the name is free after this time.
    FreeIn(Duration),
    /// The name is free.
    Free,
    /// That holder no longer had the lock.
    NotHeld,
}

/// The holder and the waiters of one name.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// let shown = lock.inspect().await?;
/// match shown.holder {
///     Some(holder) => println!("{holder}"),
///     None => println!("free"),
/// }
/// if let Some(waiters) = shown.waiters {
///     println!("{} wait", waiters.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The holder; `None` if the lock is free.
    pub holder: Option<Entry>,
    /// The waiters, the oldest first; `None` if the server doesn't know them.
    pub waiters: Option<Vec<Entry>>,
}

impl Inspection {
    /// Shows the holder, and the waiters where the server knows them.
    pub fn new(holder: Option<Entry>, waiters: Option<Vec<Entry>>) -> Inspection {
        Inspection { holder, waiters }
    }
}
