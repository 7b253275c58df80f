//! The operations that a claim and the driver need from a dialect: its table of locks.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Finding, Release, Request, Revocation, Revoked, Takeover};
use lock_core::toolkit::{Call, Prefix};
use lock_core::{Info, Name, Owner, Result};

use crate::row::Row;

/// The key of a row: the prefix and the name.
pub(crate) type Key = Arc<[u8]>;

/// The table of locks in one database. Each call is one statement, or as few as the server allows.
#[async_trait]
pub(crate) trait Table: fmt::Debug + Send + Sync + 'static {
    fn info(&self) -> Arc<Info>;

    fn prefix(&self) -> &Prefix;

    fn key(&self, name: &Name) -> Key {
        self.prefix().key(name).into_bytes().into()
    }

    /// Connects, and creates the table if it is missing. Called before all calls below, until it succeeds.
    async fn open(&self, call: &Call) -> Result<()>;

    /// Reads the lock's row. Writes nothing, and waits for no writer.
    async fn look(&self, call: &Call, key: &Key) -> Result<Option<Row>>;

    /// Grants the lock if it is free, or if this owner holds it already; then the token stays, and the lease is not
    /// shortened. `Busy` without `free_in` if the lock was free when it was looked at, but another owner had it when it
    /// was to be taken.
    async fn attempt(&self, call: &Call, key: &Key, request: &Request, course: Course) -> Result<Attempt>;

    /// Puts the owner of `request` in the place of `predecessor`, if that holds the lock, as an attempt would after a
    /// release. The lock is not free in between: no waiter is woken, and no waiter's mark is used up.
    async fn take_over(
        &self,
        call: &Call,
        key: &Key,
        request: &Request,
        predecessor: &Owner,
    ) -> Result<Takeover>;

    /// Renews the lease. Returns what is left of it then; `None` if the lock isn't this owner's any more.
    async fn renew(&self, call: &Call, key: &Key, owner: &Owner, ttl: Duration) -> Result<Option<Duration>>;

    /// Releases the lock. Also releases what a revoke has left in the owner's place. The waiters are told how many releases
    /// the owner had `heard`, where the server notifies them.
    async fn release(&self, call: &Call, key: &Key, request: &Request, heard: u32) -> Result<Release>;

    async fn revoke(&self, call: &Call, name: &Name, revocation: Revocation) -> Result<Revoked>;

    /// Reads the clock by which leases end, in microseconds since 1970.
    async fn time(&self, call: &Call) -> Result<i64>;

    /// Listens for releases of `name`, from its return on. `None` where the server sends no notifications of them.
    async fn listen(&self, _call: &Call, _key: &Key, _name: &Name) -> Result<Option<Box<dyn Listener>>> {
        Ok(None)
    }

    /// Listens for revokes of this owner's locks, from its return on. `None` where the server sends no notifications of
    /// them.
    async fn watch(&self, _call: &Call, _owner: &Owner) -> Result<Option<Box<dyn Listener>>> {
        Ok(None)
    }

    /// Returns the keys of all locks that are held and that begin with `beginning`. Reads as [`look`](Self::look) does.
    async fn list(&self, call: &Call, beginning: &[u8]) -> Result<Vec<Vec<u8>>>;

    async fn check(&self, call: &Call) -> Result<Vec<Finding>>;

    /// Creates the table if it is missing. Returns what was done, in words.
    async fn init(&self, call: &Call) -> Result<String>;
}

/// The course of an attempt, in dialects that have a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// The lock may be free: take it at once, in one statement.
    Take,
    /// The lock was held at this claim's last attempt, and should still be. Look first, so that the statement doesn't
    /// queue behind the holder's renewal.
    LookFirst,
    /// The lock was released, and others have waited for longer: look so many times first, each time only if it is still
    /// free.
    LookSeveralTimes(NonZeroU32),
}

/// A claim's subscription to wake-ups. It ends when it is dropped.
#[async_trait]
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Resolves at the next wake-up, or at once if one came since the last. Cancel safe.
    async fn woken(&self);

    /// Returns how many releases it has heard.
    fn heard(&self) -> u32 {
        0
    }

    /// Returns which part of all waiters has waited for longer, in whole quarters, as far as the last release tells.
    fn quarters_in_front(&self) -> u32 {
        0
    }

    /// Called after each further attempt that found the lock held. Refreshes the mark by which a release learns that a
    /// client waits.
    async fn refresh_mark(&self, _call: &Call) {}
}
