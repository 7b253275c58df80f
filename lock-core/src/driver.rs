//! The contract between the core and a backend: what a driver has to teach us of its server, and nothing else.
//!
//! A [`Driver`] knows one server. It opens [`Claim`]s: one owner's business with one name, from the first try to the
//! release. In the core one task owns each claim for its whole life; waiting, deadlines, renewal, loss and
//! cancellation are written there, once. `docs/add-a-backend.md` walks through a driver from end to end.

mod finding;
mod server_clock;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::owner::{Label, Owner, OwnerBytes};
use crate::token::FencingToken;

pub use crate::call::Call;
#[cfg(feature = "tls")]
pub use crate::tls::check_tls_provider;
pub use finding::{Drift, Finding, Level};
pub use server_clock::ServerClock;

/// A server on which locks can be claimed.
///
/// Every call answers within the patience it was given, counted on the client's clock, whatever the network does.
/// A driver has no timers but that bound, retries only what the server says it did not do, logs nothing, and only
/// classifies errors: the core adds where they happened.
#[async_trait]
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// What this backend guarantees and can do, as found on this very server.
    fn info(&self) -> Arc<Info>;

    /// Starts a claim. Does no I/O.
    fn claim(&self, request: Request) -> Box<dyn Claim>;

    /// Who holds the lock and, where the server knows, who waits.
    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection>;

    /// Takes the lock from the holder that `inspect` showed: from then on that holder's renewals fail, and say so.
    /// `NotHeld` if it is no longer that holder's. A key that no lock client can have written is `Rejected`.
    ///
    /// What it leaves in the holder's place until the deadline ends early if that holder releases, also if it was
    /// revoked once more meanwhile.
    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked>;

    /// Is the server reachable, are we allowed, is it prepared? One finding per question.
    async fn check(&self, patience: Duration) -> Result<Vec<Finding>>;

    /// Makes what the server needs once, before its first lock (a table, an index), where it is missing, and changes
    /// nothing else. What was done, in words; empty if there was nothing to do.
    async fn init(&self, _patience: Duration) -> Result<String> {
        Ok(String::new())
    }
}

/// One owner's business with one name.
///
/// Calls come one at a time. Each may be repeated: the owner is how the server recognises what it has already done.
#[async_trait]
pub trait Claim: fmt::Debug + Send {
    /// Takes the lock if it is free; where the server has a queue and the request waits, keeps a place in it.
    ///
    /// 1. Granted again, with the same token and what the server has left, if this owner holds it already.
    /// 2. A look that finds it held writes nothing.
    /// 3. It can't take effect after [`Request::patience`], counted from its start.
    /// 4. An answer that didn't come is `Unavailable`, with `Done::Unknown` unless the server can't have done it.
    ///
    /// One round trip where the server allows it. The core runs it to its end, whatever its caller does.
    async fn attempt(&mut self) -> Result<Attempt>;

    /// From its return on, a release by anybody makes `changed` resolve.
    ///
    /// Where a release must know that somebody waits, this leaves the mark. The core looks again after it: look,
    /// listen, look, wait. `Unsupported` means that this server can't push: the core polls.
    async fn listen(&mut self) -> Result<()> {
        Ok(())
    }

    /// Resolves when this claim may stand differently than last seen; may resolve for nothing. Cancel safe.
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    /// From its return on, a revoke of what this claim holds makes `changed` resolve. Where that takes a subscription, one
    /// serves all claims of the client. The core asks a moment after the grant, since most locks are given back before
    /// another client could take them away, and asks again after an error. `Unsupported` means that a holder is told by its next
    /// renewal. Cancel safe.
    async fn watch(&mut self) -> Result<Watched> {
        Err(Error::unsupported("this server does not tell holders that their lock was revoked"))
    }

    /// Confirms that this owner holds the lock and keeps it for `ttl` more, never for less than it had.
    ///
    /// `Held` proves this lock, not only its session. Never takes a lock that was lost. `Err` means unknown: the core
    /// asks again until its own deadline.
    async fn renew(&mut self, ttl: Duration) -> Result<Renewal>;

    /// Gives up whatever this owner has, the lock or the place in the queue, found by name and owner, and defeats an
    /// attempt of this owner that is still on its way where the server allows it. Never touches another owner's.
    ///
    /// If the lock was revoked, it gives up what stands in its place until the deadline: the name is free at once. The
    /// core calls it when the work under the lock has ended, and not when the loss is told. (In a queue, not if this owner
    /// has asked anew since.)
    async fn release(&mut self) -> Result<Release>;
}

/// What a claim is about.
#[derive(Clone, Debug)]
pub struct Request {
    /// The lock.
    pub name: Name,
    /// Who claims it, here and now.
    pub owner: Owner,
    /// In which way.
    pub mode: Mode,
    /// How long the lock is to be kept without a renewal.
    pub ttl: Duration,
    /// How long each call may take, from its start, on `clock`.
    pub patience: Duration,
    /// Whether the claim would take a place in a queue.
    pub waits: Waits,
    /// What people are shown of the owner.
    pub label: Label,
    /// The clock of every local instant. The server's time is another clock, and only what the server said.
    pub clock: Clock,
}

/// In which way a lock is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// By one owner at a time.
    Exclusive,
}

/// Whether a claim is prepared to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It keeps a place in the server's queue, where there is one.
    Queued,
    /// It looks once.
    No,
}

/// What became of an attempt.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// This owner holds the lock.
    Granted(Grant),
    /// Somebody else does, or is to have it first.
    Busy(Busy),
}

/// What the server granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Higher than every token of this name before.
    pub token: FencingToken,
    /// How long the server keeps the lock, counted from the start of the call, without any margin: the core
    /// subtracts one, once.
    pub valid_for: Duration,
    /// How much of that lease had passed already when the call began, on this client's clock: the margin is of all of
    /// it. Zero where the server's answer itself says what is left; not where an earlier proof is passed on, as of a
    /// session.
    pub age: Duration,
}

/// What a failed attempt learned.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// The claim has a place in the server's queue, which `release` has to give up.
    pub queued: bool,
    /// When the present lease ends by itself, where the server says so: the failed try pays for the wait.
    pub free_in: Option<Duration>,
    /// Who holds it, where the answer shows that: a caller whose wait runs out is told without another request.
    pub holder: Option<Box<Entry>>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lock is this owner's, for this long from the start of the call.
    Held {
        /// Without any margin.
        valid_for: Duration,
        /// As in a [`Grant`].
        age: Duration,
    },
    /// It is not.
    Lost(Cause),
}

/// From when on a holder is told that its lock was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Since it was granted.
    SinceTheGrant,
    /// From now on: a revoke before was not heard, and the core looks, until that is answered once.
    FromNowOn,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Somebody revoked it.
    Revoked,
    /// Somebody else holds it.
    Taken,
    /// The server no longer knows of it.
    Gone,
    /// The session that it was held in has ended.
    Session,
    /// It could not be renewed in time: the lease has ended, or will before an answer could come.
    Expired,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// What renewed it has ended: the runtime, or a panic in the driver did that; or the runtime is another process's,
    /// of which this one is a fork.
    RuntimeEnded,
}

impl Cause {
    /// One lower-case word: the label of the metric, and what JSON says.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Revoked => "revoked",
            Cause::Taken => "taken",
            Cause::Gone => "gone",
            Cause::Session => "session",
            Cause::Expired => "expired",
            Cause::MaxHold => "max_hold",
            Cause::RuntimeEnded => "runtime_ended",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Revoked => "it was revoked",
            Cause::Taken => "somebody else holds it",
            Cause::Gone => "the server no longer knows of it",
            Cause::Session => "the session with the server has ended",
            Cause::Expired => "it could not be renewed in time",
            Cause::MaxHold => "it was held for as long as max_hold allows",
            Cause::RuntimeEnded => "what renewed it has ended, with its runtime or in a panic",
        })
    }
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock, or the place in the queue, was this owner's and is given up.
    Released {
        /// Whether somebody waits elsewhere; `None` if the server can't say.
        others: Option<bool>,
    },
    /// There was nothing of this owner's.
    NotHeld,
}

/// From whom a lock is taken, and how.
#[derive(Clone, Debug)]
pub struct Revocation {
    /// The holder as `inspect` showed it.
    pub holder: OwnerBytes,
    /// A fresh owner that may replace it until its deadline, so that its renewals fail.
    pub by: Owner,
    /// Who revokes.
    pub label: Label,
    /// When the name becomes free.
    pub when: When,
    /// How long the call may take.
    pub patience: Duration,
}

/// When a revoked lock becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the deadline that the holder believes in: nobody else runs before it has been told.
    HoldersDeadline,
    /// At once. Two may run until the holder's deadline, with only the token between them.
    Now,
}

/// What became of a revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The holder can't renew; the name is free in this long.
    FreeIn(Duration),
    /// The name is free.
    Free,
    /// That holder didn't hold it any more.
    NotHeld,
}

/// Who has to do with a name.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Who holds it.
    pub holder: Option<Entry>,
    /// Who waits for it, the oldest first; `None` if the server doesn't know.
    pub waiters: Option<Vec<Entry>>,
}

/// A holder or a waiter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As the server has it, ours or a foreign client's.
    pub owner: OwnerBytes,
    /// What ours says of itself.
    pub label: Option<String>,
    /// The token, of a holder of ours.
    pub token: Option<FencingToken>,
    /// How long it has held or waited, where that is known: always of a holder of ours whose lease is the lock's.
    pub since: Option<Duration>,
    /// When its lease ends by itself, if no holder renews it, where that is known: as `since`.
    pub expires_in: Option<Duration>,
}

impl Entry {
    /// What it shows this much later, if nothing was changed meanwhile but a lease that was renewed.
    pub(crate) fn later(self, by: Duration) -> Entry {
        Entry {
            since: self.since.map(|since| since + by),
            expires_in: self.expires_in.and_then(|left| left.checked_sub(by)),
            ..self
        }
    }
}

impl fmt::Display for Entry {
    /// `held by deploy@web-3 pid 4711 for 3 min, lease ends in 12 s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "held by {label}")?,
            None => write!(f, "held by \"{}\"", self.owner)?,
        }
        if let Some(since) = self.since {
            write!(f, " for {}", Rough(since))?;
        }
        match self.expires_in {
            Some(left) => write!(f, ", lease ends in {}", Rough(left)),
            None => Ok(()),
        }
    }
}

/// A duration as people say it.
struct Rough(Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            s @ ..120 => write!(f, "{s} s"),
            s @ 120..7200 => write!(f, "{} min", s / 60),
            s @ 7200..172_800 => write!(f, "{} h", s / 3600),
            s => write!(f, "{} days", s / 86400),
        }
    }
}

/// What a backend guarantees and can do, as found on this very server.
#[derive(Clone, Debug)]
pub struct Info {
    /// `redis`, `memory`, …
    pub backend: &'static str,
    /// The server's address, for people; never a password.
    pub server: String,
    /// Which server this is, by whatever address it was reached, and what stands before names there: two clients with
    /// the same identity have the same lock by the same name. Asked of the server, with each connection anew; `None`
    /// where it doesn't say. A server that was started again may be another.
    pub identity: Option<String>,
    /// Under which assumption the token rises.
    pub fencing: Fencing,
    /// What a lease belongs to.
    pub lease: Lease,
    /// In which order waiters are served.
    pub fair: Fair,
    /// How a waiter learns of a release.
    pub wakes: Wakes,
    /// The shortest ttl that can be asked for.
    pub min_ttl: Duration,
    /// The longest ttl that can be asked for.
    pub max_ttl: Duration,
    /// Whose clock ends a lease, and what follows if it is set.
    pub clock: &'static str,
    /// What the loss of a node or of its data does.
    pub data_loss: String,
    /// Requests for one hand-over, from the release to the next grant, waiters of other processes not counted.
    pub requests_per_hand_over: u32,
}

impl Info {
    /// The lock of this name among all there are, in one line; `None` if the server doesn't say which it is. Equal for
    /// one lock, by whatever address, and wherever a prefix ends and the name begins.
    pub fn place(&self, name: &Name) -> Option<String> {
        let key = format!("{}{}", self.identity.as_ref()?, name.as_str());
        Some(format!("{}={}", self.backend, key.escape_debug()))
    }
}

/// Under which assumption a token is never handed out twice and never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// None but that the server is what it says it is.
    Always,
    /// While the server keeps its data and no reading of its clock is further below an earlier one than this.
    WhileDataIsKept {
        /// How far back the clock may fall.
        clock_step: Duration,
        /// What this very server does to its data, and what a loss of it leaves.
        kept: String,
    },
    /// While a majority of the servers keep their data and no reading of a clock of theirs is further below an earlier one,
    /// of whichever of them, than this.
    WhileAMajorityKeepsItsData {
        /// How far back the clocks may fall.
        clock_step: Duration,
        /// What else is assumed.
        and: String,
    },
    /// Until a majority of the servers lose their data: then it begins anew. It counts what they have done, and owes
    /// nothing to any clock.
    UntilAMajorityLosesItsData {
        /// What else is assumed.
        and: String,
    },
}

impl fmt::Display for Fencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fencing::Always => f.write_str("rises always"),
            Fencing::WhileDataIsKept { clock_step, kept } => {
                write!(f, "rises while the server keeps its data and no reading of its clock is more than ")?;
                write!(f, "{clock_step:?} below an earlier one ({kept})")
            }
            Fencing::WhileAMajorityKeepsItsData { clock_step, and } => {
                write!(
                    f,
                    "rises while a majority of the servers keep their data, no reading of one of their clocks "
                )?;
                write!(f, "is more than {clock_step:?} below an earlier one, and {and}")
            }
            Fencing::UntilAMajorityLosesItsData { and } => {
                write!(
                    f,
                    "rises until a majority of the servers lose their data, when it begins anew, and {and}"
                )
            }
        }
    }
}

/// What a lease belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// To each lock: what is left of an owner ends one ttl after its last request at the latest.
    Lock,
    /// To a session that the client keeps alive: what is left of an owner stays until it is released.
    Session,
}

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fair {
    /// In none.
    No,
    /// Processes in the order in which they came; tasks of one process in theirs.
    PerProcess,
}

/// How a waiter learns of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// The server tells it.
    Pushed,
    /// It has to look.
    Polled,
}
