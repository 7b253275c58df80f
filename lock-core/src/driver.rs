//! The contract between the core and a backend: what a driver teaches the core about its server, and nothing else.
//!
//! A [`Driver`] knows one server. It opens [`Claim`]s. A claim is everything that one owner does with one name, from
//! the first attempt to the release. In the core one task owns each claim for its whole life. Waiting, deadlines,
//! renewal, loss and cancellation are written there, once. `docs/add-a-backend.md` explains a driver from end to end.

mod current_info;
mod finding;
mod first_use;
mod rounding;
mod server_clock;
mod slot;

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
pub use crate::location::{
    CertificateNames, Certificates, ClientCertificate, CommonParameters, Host, Login, Opening, PemBlock,
    PemFile, unescape,
};
#[cfg(feature = "tls")]
pub use crate::tls::check_tls_provider;
pub use current_info::CurrentInfo;
pub use finding::{Drift, Finding, Level};
pub use first_use::FirstUse;
pub use rounding::{whole_micros, whole_millis, whole_seconds};
pub use server_clock::ServerClock;
pub use slot::{Connect, Slot};

/// A server on which locks can be claimed.
///
/// Every call returns within the patience that it was given, counted on the client's clock, whatever the network does.
/// A driver has no timer except that limit. It retries only what the server says it did not do. It logs nothing, and it
/// only classifies errors: the core adds where they happened.
#[async_trait]
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// Returns what this backend guarantees and can do, as found on the connected server.
    fn info(&self) -> Arc<Info>;

    /// Starts a claim. Does no I/O.
    fn claim(&self, request: Request) -> Box<dyn Claim>;

    /// Returns the holder of the lock and, where the server knows them, the waiters.
    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection>;

    /// Takes the lock from the holder that [`inspect`](Self::inspect) showed. From then on that holder's renewals fail
    /// and say why.
    ///
    /// Returns [`Revoked::NotHeld`] if that holder no longer has the lock.
    ///
    /// What the revoke leaves in the holder's place until the deadline ends early if that holder releases, also if it
    /// was revoked again in between.
    ///
    /// # Errors
    ///
    /// `Rejected` for a key that no lock client can have written.
    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked>;

    /// Checks whether the server can be reached, has what locks need, and grants this client the necessary rights.
    /// Returns one finding per question.
    async fn check(&self, patience: Duration) -> Result<Vec<Finding>>;

    /// Creates what the server needs once before its first lock (a table, an index), if it is missing. Changes nothing
    /// else.
    ///
    /// Returns a description of what was done, which is empty if there was nothing to do.
    async fn init(&self, _patience: Duration) -> Result<String> {
        Ok(String::new())
    }
}

/// Everything that one owner does with one name.
///
/// The core makes one call at a time. Each call may be repeated: the server recognises by the owner what it has already
/// done.
#[async_trait]
pub trait Claim: fmt::Debug + Send {
    /// Takes the lock if it is free. If it is held, the request waits and the server has a queue, keeps a place in that
    /// queue.
    ///
    /// 1. If this owner holds the lock already, it is granted again, with the same token and with what the server has
    ///    left of the lease.
    /// 2. An attempt that finds the lock held writes nothing, except its place in the queue.
    /// 3. An attempt can't take effect after [`Request::patience`], counted from its start.
    /// 4. If no answer came, the error is `Unavailable`, with `Effect::Unknown` unless the server can't have done it.
    ///
    /// An attempt takes one round trip where the server allows that. The core always runs it to completion, even if its
    /// caller has gone.
    async fn attempt(&mut self) -> Result<Attempt>;

    /// Starts to listen: after this call has returned, a release by any client makes [`changed`](Self::changed)
    /// resolve.
    ///
    /// If the server has to know of waiters before it announces a release, this call marks on the server that one
    /// waits. The core attempts again after this call and only then waits, so that it misses no release in between.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this server can't push to this client. The core then polls.
    async fn listen(&mut self) -> Result<()> {
        Ok(())
    }

    /// Resolves when the state of this claim may have changed since it was last seen. May also resolve without a
    /// change.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the core drops this future and calls it again.
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Starts to listen for a revoke: after this call has returned, a revoke of what this claim holds makes
    /// [`changed`](Self::changed) resolve.
    ///
    /// Where that takes a subscription, one subscription serves all claims of the client. The core calls this a moment
    /// after the grant, because most locks are released before another client could revoke them.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this server does not announce revokes: the holder then learns of one from its next renewal.
    /// After any other error the core calls this again.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the core may drop this future and call it again.
    async fn watch(&mut self) -> Result<Watched> {
        Err(Error::unsupported("this server does not tell holders that their lock was revoked"))
    }

    /// Confirms that this owner holds the lock, and keeps it for `ttl` from now, never for less than the time that was
    /// left.
    ///
    /// [`Renewal::Held`] proves this lock, and not only its session. A renewal never takes a lock that was lost.
    ///
    /// # Errors
    ///
    /// An error means that the outcome is unknown. The core asks again until its own deadline.
    async fn renew(&mut self, ttl: Duration) -> Result<Renewal>;

    /// Releases what this owner has on the server, the lock or a place in the queue, found by name and owner. Where the
    /// server allows it, a release also defeats an attempt of this owner that is still on its way. It never touches
    /// what belongs to another owner.
    ///
    /// If the lock was revoked, the release removes what stands in its place until the deadline: the name is free at
    /// once. The core calls it when the work under the lock has ended, and not when the loss is told. (On a server with
    /// a queue, the release does not remove that if this owner has made another attempt since.)
    async fn release(&mut self) -> Result<Release>;
}

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name of the lock.
    pub name: Name,
    /// The owner of this claim, new for each acquisition.
    pub owner: Owner,
    /// The mode in which the lock is claimed.
    pub mode: Mode,
    /// How long the lock is kept without a renewal.
    pub ttl: Duration,
    /// How long each call may take, counted from its start on `clock`.
    pub patience: Duration,
    /// Whether the claim takes a place in the server's queue.
    pub waits: Queueing,
    /// The text that people see for this owner.
    pub label: Label,
    /// The clock of every local instant. The server's time is another clock: it is known only from the server's
    /// answers.
    pub clock: Clock,
}

/// The mode in which a lock is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// One owner at a time.
    Exclusive,
}

/// Whether a claim waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// It keeps a place in the server's queue, where there is one.
    Queued,
    /// It makes one attempt and does not wait.
    No,
}

/// The answer to an attempt.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// This owner holds the lock.
    Granted(Grant),
    /// Another owner holds the lock, or is to get it first.
    Busy(Busy),
}

/// What the server granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Higher than every earlier token of this name.
    pub token: FencingToken,
    /// How long the server keeps the lock, counted from the start of the call. Without any margin: the core subtracts
    /// one, once.
    pub valid_for: Duration,
    /// How much of the lease had passed before the call began, on this client's clock. The core takes its margin from
    /// the whole lease, this time included.
    ///
    /// Zero if the server's answer itself says how much is left. Not zero if the driver passes on an earlier proof,
    /// such as a session's.
    pub age: Duration,
}

/// What the client learns from an attempt that was not granted.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// Whether the claim has a place in the server's queue, which `release` has to give up.
    pub queued: bool,
    /// When the present lease ends without a renewal, where the server says so. The core attempts again at that time.
    pub free_in: Option<Duration>,
    /// The holder, where the answer shows it: a caller whose wait runs out can then be told without another request.
    pub holder: Option<Box<Entry>>,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lock is this owner's for `valid_for`, counted from the start of the call.
    Held {
        /// How long the server keeps the lock, without any margin.
        valid_for: Duration,
        /// How old the proof is, as [`Grant::age`].
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

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock, or the place in the queue, was this owner's and is released.
    Released {
        /// Whether another client waits; `None` if the server can't say.
        others: Option<bool>,
    },
    /// This owner had neither the lock nor a place in the queue.
    NotHeld,
}

/// A request to revoke: from which holder, and how.
#[derive(Clone, Debug)]
pub struct Revocation {
    /// The holder as `inspect` showed it.
    pub holder: OwnerBytes,
    /// A new owner that may stand in the holder's place until the holder's deadline, so that its renewals fail.
    pub by: Owner,
    /// The text that people see for the client that revokes.
    pub label: Label,
    /// When the name becomes free.
    pub when: When,
    /// How long the call may take.
    pub patience: Duration,
}

/// When a revoked lock becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the deadline until which the holder relies on the lock: no other owner gets it before the holder has been
    /// told.
    HoldersDeadline,
    /// At once. Until the holder's deadline two owners may run, with only the token between them.
    Now,
}

/// The answer to a revoke.
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
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The holder; `None` if the lock is free.
    pub holder: Option<Entry>,
    /// The waiters, the oldest first; `None` if the server doesn't know them.
    pub waiters: Option<Vec<Entry>>,
}

/// A holder or a waiter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The owner's bytes as the server stores them, of a client of this library or of another one.
    pub owner: OwnerBytes,
    /// The label, of a client of this library.
    pub label: Option<String>,
    /// The token, of a holder that is a client of this library.
    pub token: Option<FencingToken>,
    /// How long it has held or waited, where that is known. Always known of a holder that is a client of this library,
    /// if the lease belongs to the lock.
    pub since: Option<Duration>,
    /// When its lease ends without a renewal. Known where `since` is known.
    pub expires_in: Option<Duration>,
}

impl Entry {
    /// Ages the entry by `by`. An `expires_in` that has passed becomes `None`: the lease was renewed in between.
    pub(crate) fn later(self, by: Duration) -> Entry {
        Entry {
            since: self.since.map(|since| since + by),
            expires_in: self.expires_in.and_then(|left| left.checked_sub(by)),
            ..self
        }
    }
}

impl fmt::Display for Entry {
    /// For example `held by deploy@web-3 pid 4711 for 3 min, lease ends in 12 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "held by {label}")?,
            None => write!(f, "held by \"{}\"", self.owner)?,
        }
        if let Some(since) = self.since {
            write!(f, " for {}", RoundedDuration(since))?;
        }
        match self.expires_in {
            Some(left) => write!(f, ", lease ends in {}", RoundedDuration(left)),
            None => Ok(()),
        }
    }
}

/// A duration in one rounded unit, for people.
struct RoundedDuration(Duration);

impl fmt::Display for RoundedDuration {
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

/// What a backend guarantees and can do, as found on the connected server.
#[derive(Clone, Debug)]
pub struct Info {
    /// The kind of server: `redis`, `memory`, …
    pub backend: &'static str,
    /// The server's address, for people. Never holds a password.
    pub server: String,
    /// Which server this is, whatever address it was reached by, together with what stands before names there. Two
    /// clients with the same identity have the same lock by the same name.
    ///
    /// It is read from the server with each new connection; `None` if the server doesn't say. A server that was
    /// restarted may have another identity.
    pub identity: Option<String>,
    /// Under which assumption the token rises.
    pub fencing: Fencing,
    /// What a lease belongs to.
    pub lease: Lease,
    /// In which order waiters are served.
    pub fair: Fair,
    /// How a waiter learns of a release.
    pub wakes: Wakes,
    /// The shortest allowed ttl.
    pub min_ttl: Duration,
    /// The longest allowed ttl.
    pub max_ttl: Duration,
    /// Which clock ends a lease, and what follows if that clock is set.
    pub clock: &'static str,
    /// What happens when a node or its data is lost.
    pub data_loss: String,
    /// The number of requests for one hand-over, from the release to the next grant, without those of waiters in other
    /// processes.
    pub requests_per_hand_over: u32,
}

impl Info {
    /// Identifies the lock of this name among all locks, in one line. `None` if the server doesn't say which it is.
    ///
    /// The result is equal for the same lock, whatever address its server was reached by, and however its key is split
    /// into prefix and name.
    pub fn place(&self, name: &Name) -> Option<String> {
        let key = format!("{}{}", self.identity.as_ref()?, name.as_str());
        Some(format!("{}={}", self.backend, key.escape_debug()))
    }
}

/// Under which assumption a token is never handed out twice and never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// No assumption, except that the server is what it says it is.
    Always,
    /// While the server keeps its data, and no reading of its clock is further below an earlier one than `clock_step`.
    WhileDataIsKept {
        /// How far the clock may be set back.
        clock_step: Duration,
        /// How this server keeps its data, and what is left after a loss of it.
        kept: String,
    },
    /// While a majority of the servers keep their data, and no reading of any of their clocks is further below an
    /// earlier reading, of the same or of another of these clocks, than `clock_step`.
    WhileAMajorityKeepsItsData {
        /// How far the clocks may be set back.
        clock_step: Duration,
        /// What else is assumed.
        and: String,
    },
    /// Until a majority of the servers lose their data; then the token begins anew. It counts what the servers have
    /// done, and does not depend on any clock.
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
    /// To each lock. What is left of an owner on the server ends one ttl after its last request at the latest.
    Lock,
    /// To a session that the client keeps alive. What is left of an owner on the server stays until it is released.
    Session,
}

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fair {
    /// In no particular order.
    No,
    /// Processes in the order in which they came, and tasks of one process in the order in which they came.
    PerProcess,
}

/// How a waiter learns of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// The server tells the waiter.
    Pushed,
    /// The waiter has to ask again and again.
    Polled,
}
