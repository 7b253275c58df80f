//! What entries of the log are made of: on what terms, how, and why.

use std::time::Duration;

use crate::sim::history::FamilyName;

/// Under which rules a history is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// On which kind of server.
    pub family: FamilyName,
    /// On how many.
    pub servers: usize,
    /// What wakes those who wait.
    pub wakes: WakesBy,
}

/// What wakes those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakesBy {
    /// Pushes, and looks of their own.
    PushesAndLooks,
    /// Pushes alone: the core's next look is seconds away, and no message is lost or late.
    PushesAlone,
}

/// What became of a message that did not come as it should. Times are the simulation's, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A request or an answer was lost: its client asks again.
    Lost,
    /// What a server told of itself was lost, or a client told it without a question: it is not repeated.
    NewsLost,
    /// It comes late.
    Late {
        /// When.
        until: u64,
    },
    /// It comes twice.
    Twice {
        /// When it comes the second time.
        until: u64,
    },
    /// It came to a server that has no vote.
    NoVote {
        /// When that votes again, at the latest.
        until: u64,
    },
}

/// On what terms a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// For how long it is granted.
    pub ttl: Duration,
    /// It is not renewed by itself.
    pub fixed: bool,
    /// The longest time that it is held.
    pub max_hold: Option<Duration>,
    /// The shortest.
    pub min_hold: Option<Duration>,
}

/// How long a caller waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It looks once.
    Not,
    /// So long.
    For(Duration),
    /// Without end.
    Ever,
}

/// How a holder parts with its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Releases it, and waits for the answer.
    Release,
    /// Asks for the release, and goes away before the answer.
    HalfRelease,
    /// Drops it.
    Drop,
    /// Leaves it to `run`.
    Run,
    /// Goes away in the middle of its work.
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
    /// It was lost before the caller had it.
    Lost,
    /// The caller went away.
    Cancelled,
    /// What no history has a reason for.
    Unexpected,
}
