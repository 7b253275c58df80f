//! What is asked of one of the servers, and what it answers: each call one atomic step there.

use std::fmt;
use std::time::Duration;

use lock_core::{FencingToken, Name, Result};

/// One of several servers. Calls may arrive twice, late, or never; each answers within its patience.
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Where it is, for people.
    fn address(&self) -> &str;

    /// Takes the lock on this node, if it is free there. It can't take effect after `patience`.
    fn grant(&self, ask: Ask, patience: Duration) -> impl Future<Output = Result<Vote>> + Send;

    /// Whom this node knows to hold the lock. Changes nothing, and is answered without a vote, too.
    fn look(&self, ask: Ask, patience: Duration) -> impl Future<Output = Result<Option<Held>>> + Send;

    /// Raises the token of that very grant (the owner's, with `granted`) to `token`. Whether it stands there now.
    fn raise(
        &self,
        ask: Ask,
        granted: FencingToken,
        token: FencingToken,
        patience: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Keeps the lock for at least the ttl.
    fn renew(&self, ask: Ask, patience: Duration) -> impl Future<Output = Result<Kept>> + Send;

    /// Takes the lock for an owner that a majority of the others has kept it for, whatever this node remembers. It can't
    /// take effect after `patience`. Whether it is the owner's now.
    fn refill(
        &self,
        ask: Ask,
        token: FencingToken,
        patience: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Gives up what this value has, and `tells` those who wait.
    fn release(
        &self,
        ask: Ask,
        tells: Tells,
        patience: Duration,
    ) -> impl Future<Output = Result<Freed>> + Send;
}

/// For which lock, and for whom. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The lock's keys.
    pub keys: std::sync::Arc<Keys>,
    /// What the lock's key holds while it is this owner's: of this try alone.
    pub value: std::sync::Arc<str>,
    /// What it held of this owner's tries before: what a node still has of them is no other's.
    pub earlier: std::sync::Arc<[std::sync::Arc<str>]>,
    /// How long it is to be kept without a renewal.
    pub ttl: Duration,
    /// The longest ttl that was asked for so far: what it is kept for where an administrator took its end away.
    pub longest: Duration,
}

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Its name.
    pub name: Name,
    /// The lock's, with its prefix.
    pub lock: Vec<u8>,
    /// The one of its token.
    pub token: Vec<u8>,
    /// The channel on which its releases are told.
    pub channel: Vec<u8>,
}

/// Whether a release is told to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// The lock may be free now.
    Waiters,
    /// The votes of a minority are taken back: those who wait are no better off.
    Nobody,
}

/// What a node says to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The lock is this try's here.
    Yes {
        /// The token on this node: higher than that of every grant here before.
        token: FencingToken,
        /// How long the node keeps it.
        left: Duration,
    },
    /// It is another's.
    No(Held),
    /// The node may have forgotten locks, and sits out the longest ttl.
    SitsOut {
        /// For so much longer.
        left: Duration,
    },
    /// The node's other clients have agreed on another longest ttl.
    Disagrees {
        /// On this one.
        agreed: Duration,
    },
}

/// Whom a node knows to hold the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What the lock's key holds.
    pub value: Vec<u8>,
    /// How long it is kept; `None` if it has no end.
    pub left: Option<Duration>,
    /// The last token on this node.
    pub token: Option<i64>,
    /// The node's time, in microseconds.
    pub now: i64,
}

/// What a node says to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The lock is this owner's here.
    Yes {
        /// How long the node keeps it.
        left: Duration,
    },
    /// The node has no such lock.
    Absent,
    /// It was revoked here.
    Revoked,
    /// It is another's here.
    Taken,
}

/// What a node says to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// It was this value's.
    Yes {
        /// Whether others than this client were told; `None` if the node can't say.
        others: Option<bool>,
    },
    /// It was not.
    No,
}
