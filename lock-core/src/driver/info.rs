//! The guarantees and abilities of a server.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::human_duration::HumanDuration;
use crate::name::Name;
use crate::one_line::one_line;

/// The guarantees and abilities of a backend, as found on the connected server.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// let info = client.info();
/// println!("{} at {}: tokens: {}", info.backend, info.server, info.fencing);
/// println!("if the server loses data: {}", info.data_loss);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The kind of server: `redis`, `memory`, …
    pub backend: &'static str,
    /// The server's address, for people. Never holds a password.
    pub server: String,
    /// The identity of the server, whatever address it was reached by, together with what is put before names
    /// there. Two clients with the same identity have the same lock by the same name.
    ///
    /// It is read from the server with each new connection; `None` if the server doesn't say. A server that was
    /// restarted may have another identity.
    pub identity: Option<String>,
    /// Under which assumption the token rises.
    pub fencing: Fencing,
    /// The scope of a lease.
    pub lease: Lease,
    /// In which order waiters are served.
    pub fair: Fair,
    /// The way in which a waiter learns of a release.
    pub wakes: Wakes,
    /// The server's ability to list locks.
    pub lists: Lists,
    /// The way in which the lock goes from one task to the next one of the same client.
    pub takeovers: Takeovers,
    /// The shortest allowed ttl.
    pub min_ttl: Duration,
    /// The longest allowed ttl.
    pub max_ttl: Duration,
    /// The clock that ends a lease, and the consequence if that clock is set.
    pub clock: &'static str,
    /// The consequence when a node or its data is lost.
    pub data_loss: String,
    /// The number of requests for one hand-over, from the release to the next grant, without those of waiters in other
    /// processes.
    pub requests_per_hand_over: u32,
}

impl Info {
    /// Describes a server by what every backend has to say: which server it is, what it guarantees, and the shortest and
    /// the longest ttl.
    ///
    /// The other fields begin with what promises least: no identity, no order, no wake-ups, no list, no takeover in one
    /// request, four requests for a hand-over, and nothing said of the clock or of lost data. Set each in which the server does better.
    pub fn new(
        backend: &'static str,
        server: impl Into<String>,
        fencing: Fencing,
        lease: Lease,
        ttl: RangeInclusive<Duration>,
    ) -> Info {
        let (min_ttl, max_ttl) = ttl.into_inner();
        Info {
            backend,
            server: server.into(),
            identity: None,
            fencing,
            lease,
            fair: Fair::No,
            wakes: Wakes::Polled,
            lists: Lists::Nothing,
            takeovers: Takeovers::ByRelease,
            min_ttl,
            max_ttl,
            clock: "the backend does not say",
            data_loss: "the backend does not say".to_owned(),
            requests_per_hand_over: 4,
        }
    }

    /// Makes one line of each text, a part of which may be a server's words.
    pub(crate) fn clean_texts(&mut self) {
        let fencing = match &mut self.fencing {
            Fencing::Always => None,
            Fencing::WhileDataIsKept { kept, .. } => Some(kept),
            Fencing::WhileAMajorityKeepsItsData { and, .. } | Fencing::UntilAMajorityLosesItsData { and } => {
                Some(and)
            }
        };
        for text in [Some(&mut self.data_loss), fencing].into_iter().flatten() {
            *text = one_line(text).into_owned();
        }
    }

    /// Identifies the lock of this name among all locks, in one line. `None` if the server doesn't say which it is.
    ///
    /// The result is equal for the same lock, whatever address its server was reached by, and however its key is split
    /// into prefix and name.
    pub fn place(&self, name: &Name) -> Option<String> {
        let key = format!("{}{}", self.identity.as_ref()?, name.as_str());
        Some(format!("{}={}", self.backend, key.escape_debug()))
    }
}

/// The ability of a server to list its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lists {
    /// The locks that are held or waited for.
    Held,
    /// The server can't list its locks.
    Nothing,
}

/// The way in which a lock goes from one task to the next one of the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takeovers {
    /// In one request, which ends the one hold and begins the other ([`Claim::take_over`](super::Claim::take_over)).
    InOneRequest,
    /// By a release and an attempt.
    ByRelease,
}

/// Under which assumption a token is never handed out twice and never falls.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Fencing;
///
/// // A job that must never run twice refuses a server whose tokens may fall.
/// assert!(matches!(client.info().fencing, Fencing::Always));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// No assumption, except that the server is what it says it is.
    Always,
    /// While the server keeps its data, and no reading of its clock is further below an earlier one than `clock_step`.
    WhileDataIsKept {
        /// The time by which the clock may be set back.
        clock_step: Duration,
        /// The persistence of this server's data, and the rest after a loss of it.
        kept: String,
    },
    /// While a majority of the servers keep their data, and no reading of any of their clocks is further below an
    /// earlier reading, of the same or of another of these clocks, than `clock_step`.
    WhileAMajorityKeepsItsData {
        /// The time by which the clocks may be set back.
        clock_step: Duration,
        /// Further assumptions.
        and: String,
    },
    /// Until a majority of the servers lose their data; then the token begins anew. It counts what the servers have
    /// done, and does not depend on any clock.
    UntilAMajorityLosesItsData {
        /// Further assumptions.
        and: String,
    },
}

impl fmt::Display for Fencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fencing::Always => f.write_str("rises always"),
            Fencing::WhileDataIsKept { clock_step, kept } => {
                write!(f, "rises while the server keeps its data and no reading of its clock is more than ")?;
                write!(f, "{} below an earlier one ({kept})", HumanDuration(*clock_step))
            }
            Fencing::WhileAMajorityKeepsItsData { clock_step, and } => {
                write!(
                    f,
                    "rises while a majority of the servers keep their data, no reading of one of their clocks "
                )?;
                write!(f, "is more than {} below an earlier one, and {and}", HumanDuration(*clock_step))
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

/// The scope of a lease.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Lease;
///
/// if client.info().lease == Lease::Session {
///     println!("all locks of this client end together");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// A lease belongs to one lock. What is left of an owner on the server ends one ttl after its last
    /// request at the latest.
    Lock,
    /// A lease belongs to a session that the client keeps alive. What is left of an owner on the server stays
    /// until it is released.
    Session,
}

impl Lease {
    /// Returns it in one or two lower-case words, as `lock info` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Lease::Lock => "lock",
            Lease::Session => "session",
        }
    }
}

/// In which order waiters are served.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Fair;
///
/// if client.info().fair == Fair::No {
///     println!("a process may overtake one that waits for longer");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fair {
    /// In no particular order.
    No,
    /// Processes in the order in which they came, and tasks of one process in the order in which they came.
    PerProcess,
}

impl Fair {
    /// Returns it in one or two lower-case words, as `lock info` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fair::No => "no",
            Fair::PerProcess => "per process",
        }
    }
}

/// The way in which a waiter learns of a release.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Wakes;
///
/// if client.info().wakes == Wakes::Polled {
///     println!("waiters ask the server now and then");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wakes {
    /// The server notifies the waiter.
    Pushed,
    /// The waiter polls: it attempts again after each backoff.
    Polled,
}

impl Wakes {
    /// Returns it in one or two lower-case words, as `lock info` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Wakes::Pushed => "pushed",
            Wakes::Polled => "polled",
        }
    }
}
