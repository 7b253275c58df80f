//! The context that opens a driver, and the requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::name::Name;
use crate::owner::{Label, Owner, OwnerBytes};
use crate::random::Random;

/// The client's context, with which a driver is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The client's clock.
    pub clock: Clock,
    /// The client's source of randomness.
    pub random: Random,
    /// The time that connecting may take.
    pub patience: Duration,
}

impl Context {
    /// Makes a context, for tests of a driver.
    pub fn new(clock: Clock, random: Random, patience: Duration) -> Context {
        Context { clock, random, patience }
    }
}

/// The request of a claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The name of the lock.
    pub name: Name,
    /// The owner of this claim, new for each acquisition.
    pub owner: Owner,
    /// The mode in which the lock is claimed.
    pub mode: Mode,
    /// The time for which the lock is kept without a renewal.
    pub ttl: Duration,
    /// The time that each call may take, counted from its start on `clock`.
    pub patience: Duration,
    /// The choice between the server's queue and a single try.
    pub waits: Queueing,
    /// The text that people see for this owner.
    pub label: Label,
    /// The clock of every local instant. The server's time is another clock: it is known only from the server's
    /// answers.
    pub clock: Clock,
    /// The number of times that the owner holds the lock, for a server whose other clients show that.
    pub holds: HoldCount,
}

impl Request {
    /// Asks for an exclusive lock, without a label and without a place in the server's queue.
    pub fn new(name: Name, owner: Owner, ttl: Duration, patience: Duration, clock: Clock) -> Request {
        let (mode, waits, label) = (Mode::Exclusive, Queueing::No, Label::new(""));
        Request { name, owner, mode, ttl, patience, waits, label, clock, holds: HoldCount::default() }
    }
}

/// The owner whose place another owner of the same client takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Predecessor {
    /// The owner.
    pub owner: Owner,
    /// The text that people see for it, as its claim has it.
    pub label: Label,
}

impl Predecessor {
    /// Names an owner, with the label of its claim.
    pub fn new(owner: Owner, label: Label) -> Predecessor {
        Predecessor { owner, label }
    }
}

/// The number of times that one owner holds one lock: the guards of a
/// [reentrant](crate::LockBuilder::reentrant) lock. Cheap to clone; all clones count the same.
///
/// A guard that is neither the first nor the last one sends the server no request of its own when it comes. The next
/// renewal can tell the server the number.
#[derive(Clone, Debug, Default)]
pub struct HoldCount(Arc<AtomicU32>);

impl HoldCount {
    /// Returns the number of guards; 1 before the first one, because the attempt is for it.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed).max(1)
    }

    pub(crate) fn add_guard(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Only for a guard that was added.
    pub(crate) fn remove_guard(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The mode in which a lock is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// One owner at a time.
    Exclusive,
}

/// The behaviour of a claim while the lock is held: it waits in the queue or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// The claim keeps its queue position on the server, where there is a queue.
    Queued,
    /// The claim makes one attempt and does not wait.
    No,
}

/// A request to revoke: from which holder, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Revocation {
    /// The holder as `inspect` showed it.
    pub holder: OwnerBytes,
    /// A new owner that may stand in the holder's place until the holder's deadline, so that its renewals fail.
    pub by: Owner,
    /// The text that people see for the client that revokes.
    pub label: Label,
    /// The moment at which the name becomes free.
    pub when: When,
    /// The time that the call may take.
    pub patience: Duration,
}

impl Revocation {
    /// Asks to revoke the lock from `holder`, for the client that `label` names to people.
    pub fn new(holder: OwnerBytes, by: Owner, label: Label, when: When, patience: Duration) -> Revocation {
        Revocation { holder, by, label, when, patience }
    }
}

/// The moment at which a revoked lock becomes free.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// use onelock::When;
///
/// // At once: until the holder's deadline two owners may run, and only the token keeps them apart.
/// if let Some(holder) = lock.inspect().await?.holder {
///     lock.revoke(&holder.owner, When::Now).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the deadline until which the holder relies on the lock: no other owner gets it before the holder has been
    /// told. At once, if the work is done and no client holds the lock.
    HoldersDeadline,
    /// At once. Until the holder's deadline two owners may run, and only the token keeps them apart.
    Now,
}
