//! What a claim and the driver need of a dialect: its table of locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Call, Finding, Release, Request, Revocation, Revoked};
use lock_core::{Info, Name, Owner, Result};

use crate::row::Row;

/// What a row is found by: the prefix and the name.
pub(crate) type Key = Arc<[u8]>;

/// The table of locks in one database. Each call is one statement, or as few as the server allows.
#[async_trait]
pub(crate) trait Table: fmt::Debug + Send + Sync + 'static {
    fn info(&self) -> Arc<Info>;

    fn key(&self, name: &Name) -> Key;

    /// Writes nothing, and waits for no writer.
    async fn look(&self, call: &Call, key: &Key) -> Result<Option<Row>>;

    /// Grants a lock that is free, or this owner's already: then its token stays, and nothing is shortened. Busy without an
    /// end if it was free when it was looked at, and another's when it was to be taken.
    async fn attempt(&self, call: &Call, key: &Key, request: &Request, course: Course) -> Result<Attempt>;

    /// What is left then; `None` if it isn't this owner's any more.
    async fn renew(&self, call: &Call, key: &Key, owner: &Owner, ttl: Duration) -> Result<Option<Duration>>;

    /// Also of what a revoke has left in the owner's place.
    async fn release(&self, call: &Call, key: &Key, request: &Request) -> Result<Release>;

    async fn revoke(&self, call: &Call, name: &Name, revocation: Revocation) -> Result<Revoked>;

    /// Listens to releases of `name` from its return on. `None` where the server doesn't tell of them.
    async fn listen(&self, _call: &Call, _key: &Key, _name: &Name) -> Result<Option<Box<dyn Listener>>> {
        Ok(None)
    }

    /// Listens to revokes of what this owner holds, from its return on. `None` where the server doesn't tell of them.
    async fn watch(&self, _call: &Call, _owner: &Owner) -> Result<Option<Box<dyn Listener>>> {
        Ok(None)
    }

    async fn check(&self, call: &Call) -> Result<Vec<Finding>>;

    /// Makes the table where it is missing; what was done, in words.
    async fn init(&self, call: &Call) -> Result<String>;
}

/// How an attempt goes about it, where that is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It may well be free: takes it at once, in one statement.
    Take,
    /// It was held when this claim last asked, and should be still: looks before it queues behind the holder's renewal.
    LookFirst,
}

/// A claim that listens; stops when dropped.
#[async_trait]
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Resolves at the next wake-up, or at once if one came since the last. Cancel safe.
    async fn woken(&self);

    /// After each further look that found the lock held: keeps up what tells a release that somebody waits.
    async fn go_on(&self, _call: &Call) {}
}
