//! The parts of log entries: the fate of messages, claims, terms, ways to wait and to part, and reasons.

use std::time::Duration;

use crate::ids::LockId;

/// The fate of a message that was lost, late or doubled, or that came to a server without a vote. Times are simulated
/// time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A request or an answer was lost: its client asks again.
    Lost,
    /// A push of a server was lost, or a message of a client that expects no answer. It is not repeated.
    NewsLost,
    /// It arrives late, at this time.
    Late(u64),
    /// It arrives twice, the second time at this time.
    Twice(u64),
    /// It arrived at a server that has no vote at the moment, and votes again at this time, at the latest.
    NoVote(u64),
}

/// A lock that a process has, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The client.
    pub client: usize,
    /// The lock.
    pub lock: LockId,
}

/// The terms on which a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The length of the lease.
    pub ttl: Duration,
    /// True if the lease is fixed: the client doesn't renew it by itself.
    pub fixed: bool,
    /// The longest time for which the lock may be held.
    pub max_hold: Option<Duration>,
    /// The shortest time for which the lock is held.
    pub min_hold: Option<Duration>,
}

/// The longest time that a caller waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It asks once, and doesn't wait.
    Not,
    /// At most this long.
    For(Duration),
    /// Without a limit.
    Ever,
}

/// The way in which a holder gives up its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It releases the guard, and waits for the answer.
    Release,
    /// It asks for the release, and goes away before the answer.
    HalfRelease,
    /// It drops the guard.
    Drop,
    /// It returns from its work, and `run` releases the guard.
    Run,
    /// It goes away in the middle of its work.
    Gone,
}

/// Why a caller has no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another client holds the lock.
    Busy,
    /// Another client held it until the wait was over.
    Timeout,
    /// The server did not answer.
    Unavailable,
    /// The lock was lost before the caller had it.
    Lost,
    /// The caller went away.
    Cancelled,
    /// Any other error. No history has a reason for one.
    Unexpected,
}
