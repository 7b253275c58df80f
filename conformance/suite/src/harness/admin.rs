//! An administrator of the server can do and see this.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::Name;

/// Holders can be forgotten.
#[async_trait]
pub trait Forget: fmt::Debug + Send + Sync {
    /// Makes the server forget the holder of `name`, as an eviction or an administrator would. The token stays.
    async fn forget(&self, name: &Name);
}

/// The server's requests and writes can be counted.
#[async_trait]
pub trait Count: fmt::Debug + Send + Sync {
    /// Returns what the server has counted so far.
    async fn counters(&self) -> Counters;
}

/// The requests and writes that a server has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Requests of any kind.
    pub requests: u64,
    /// Changes to its data.
    pub writes: u64,
}

/// Locks leave things on the server that can be counted.
#[async_trait]
pub trait Residue: fmt::Debug + Send + Sync {
    /// Returns how many things of any kind locks have left on the server, except for tokens: keys, rows, waiters,
    /// subscriptions.
    async fn residue(&self) -> u64;
}

/// The server's records can be made older.
#[async_trait]
pub trait Age: fmt::Debug + Send + Sync {
    /// Returns how many things of any kind locks have left on the server, tokens included: those of
    /// [`residue`](Residue::residue), and what carries the token of a name that no client has any more.
    async fn kept(&self) -> u64;

    /// Ages the server's records of free locks by `by`, as if they had been written that much earlier: sets a clock, or
    /// moves back the dates of rows and the expiry of keys. Records without expiry must stay.
    async fn age(&self, by: Duration);
}

/// Every connection can be cut.
#[async_trait]
pub trait Interrupt: fmt::Debug + Send + Sync {
    /// Cuts every connection and empties every cache that clients may rely on, including scripts. A case that uses it
    /// checks through a proxy that a connection was cut.
    async fn interrupt(&self);
}

/// Names can be kept busy at the server.
#[async_trait]
pub trait KeepBusy: fmt::Debug + Send + Sync {
    /// Keeps what the server has of each of these names from all other writers, as the open transaction of another program
    /// would. Each name was held before.
    async fn keep_busy(&self, names: &[Name]) -> Box<dyn Busy>;
}

/// Names that are busy at the server, until this is ended or dropped.
#[async_trait]
pub trait Busy: fmt::Debug + Send {
    /// Lets others write again. What was kept is as it was before.
    async fn end(self: Box<Self>);
}
