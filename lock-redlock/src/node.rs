//! Requests to one of the servers, and its answers. Each call is one atomic step there.

use std::fmt;
use std::time::Duration;

use lock_core::{FencingToken, Instant, Name, Result};

/// One of several servers. Calls may arrive twice, late, or never; each answers within its patience.
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Returns the node's address, for people.
    fn address(&self) -> &str;

    /// Returns an estimate of what the node's clock shows when a request arrives that is `sent` then, in microseconds.
    /// `None` if the node has not told its time yet.
    fn on_arrival(&self, sent: Instant) -> Option<i64>;

    /// Takes the lock on this node, if it is free there. It can't take effect after `patience`. The node mints the token
    /// `proposed`, unless its last token or its clock is not below it, or its clock is far below it.
    fn grant(
        &self,
        ask: Ask,
        proposed: Option<FencingToken>,
        patience: Duration,
    ) -> impl Future<Output = Result<Vote>> + Send;

    /// Returns who holds the lock, as this node knows it. Changes nothing, and needs no vote.
    fn look(&self, ask: Ask, patience: Duration) -> impl Future<Output = Result<Option<Held>>> + Send;

    /// Raises the token of one grant, the owner's that has the token `granted`, to `token`. Returns whether the node's
    /// token is `token` now.
    fn raise(
        &self,
        ask: Ask,
        granted: FencingToken,
        token: FencingToken,
        patience: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Keeps the lock for at least the ttl.
    fn renew(&self, ask: Ask, patience: Duration) -> impl Future<Output = Result<Kept>> + Send;

    /// Takes the lock for an owner for which a majority of the other nodes keeps it, whatever this node remembers. It
    /// can't take effect after `patience`. Returns whether the owner holds it on this node now.
    fn refill(
        &self,
        ask: Ask,
        token: FencingToken,
        patience: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Releases what this value holds, and wakes waiters as `tells` says.
    fn release(
        &self,
        ask: Ask,
        tells: Tells,
        patience: Duration,
    ) -> impl Future<Output = Result<Freed>> + Send;
}

/// The request for a lock, and its owner. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The lock's keys.
    pub keys: std::sync::Arc<Keys>,
    /// The value of the lock's key while this owner holds it. Each try has another value.
    pub value: std::sync::Arc<str>,
    /// The values of this owner's earlier tries. A node that still has one of them has no other owner's lock.
    pub earlier: std::sync::Arc<[std::sync::Arc<str>]>,
    /// The time for which the lock is to be kept without a renewal.
    pub ttl: Duration,
    /// The longest ttl that was asked for so far. The lock is kept for this long if an administrator removed its
    /// expiry.
    pub longest: Duration,
}

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The lock's name.
    pub name: Name,
    /// The lock's key, with its prefix.
    pub lock: Vec<u8>,
    /// The key of the lock's token.
    pub token: Vec<u8>,
    /// The channel on which the lock's releases are published.
    pub channel: Vec<u8>,
}

/// The choice whether a release wakes waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// The release wakes waiters: the lock may be free now.
    Waiters,
    /// The release wakes no waiter: a minority's votes are taken back, which makes the lock no more free than
    /// before.
    NoWaiter,
}

/// A node's answer to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The try holds the lock on this node.
    Yes {
        /// The token on this node: higher than that of every earlier grant there.
        token: FencingToken,
        /// The time for which the node keeps it.
        left: Duration,
    },
    /// Another owner holds it there.
    No(Held),
    /// The node may have forgotten locks. It has no vote until the longest ttl is over.
    SitsOut {
        /// The time until it has a vote again.
        left: Duration,
    },
    /// The node's other clients have agreed on another longest ttl.
    Disagrees {
        /// The longest ttl that they agreed on.
        agreed: Duration,
    },
}

/// The holder of a lock, as a node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value of the lock's key.
    pub value: Vec<u8>,
    /// The time for which the lock is kept; `None` if it has no expiry.
    pub left: Option<Duration>,
    /// The last token on this node.
    pub token: Option<i64>,
    /// The node's time, in microseconds.
    pub now: i64,
}

/// A node's answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The owner holds the lock on this node.
    Yes {
        /// The time for which the node keeps it.
        left: Duration,
    },
    /// The node has no such lock.
    Absent,
    /// The lock was revoked there.
    Revoked,
    /// Another owner holds it there.
    Taken,
}

/// A node's answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// The value held the lock on this node.
    Yes {
        /// The release was delivered to other clients; `None` if the node can't say.
        others: Option<bool>,
    },
    /// The value did not hold the lock on this node.
    No,
}
