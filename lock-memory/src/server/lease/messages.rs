//! The messages between a client and a lease server.

use std::time::Duration;

use lock_core::driver::{Entry, Revoked, When};
use lock_core::{FencingToken, Label, LossReason, Owner, OwnerBytes};

use crate::server::Key;
use crate::time::ServerTime;

/// The requests to the server.
#[derive(Clone, Debug)]
pub enum Request {
    /// Ask for the server's time.
    Time,
    /// Take the lock if it is free, but not after `deadline`, when the caller no longer waits for the answer.
    ///
    /// A network may deliver it a second time, after the release and before the deadline. Then it takes the lock once
    /// more, for one `ttl`. As on Redis, this is a delay and no danger, because no client relies on that lock.
    Attempt {
        /// The lock.
        key: Key,
        /// The owner that asks for it.
        owner: Owner,
        /// The text that people see for the owner.
        label: Label,
        /// The time for which the lease is to last.
        ttl: Duration,
        /// The deadline, in this server's time.
        deadline: ServerTime,
    },
    /// Take the lock from `predecessor`, if that owner holds it, but not after `deadline`.
    Succeed {
        /// The lock.
        key: Key,
        /// The owner that should hold it, and gives it up.
        predecessor: Owner,
        /// The owner that takes it.
        owner: Owner,
        /// The text that people see for the owner.
        label: Label,
        /// The time for which the lease is to last.
        ttl: Duration,
        /// The deadline, in this server's time.
        deadline: ServerTime,
    },
    /// Keep the lock for `ttl` from now, or for as long as it is kept anyway.
    Renew {
        /// The lock.
        key: Key,
        /// The owner that should hold it.
        owner: Owner,
        /// The time for which the lease is to last from now on.
        ttl: Duration,
    },
    /// Free the lock if this owner holds it, or if it was revoked from this owner and no other owner has it yet.
    Release {
        /// The lock.
        key: Key,
        /// The owner that should hold it.
        owner: Owner,
    },
    /// Push a [`Notification::Released`] to this client whenever the lock becomes free by a request.
    Listen {
        /// The lock.
        key: Key,
        /// Numbers the client's `Listen`s, so that an `Unlisten` that is late can't undo a newer one.
        serial: u64,
    },
    /// Undo the `Listen` of this serial, or of an earlier one.
    Unlisten {
        /// The lock.
        key: Key,
        /// The serial of the `Listen`.
        serial: u64,
    },
    /// Push a [`Notification::Revoked`] to this client whenever any lock is revoked, from now on.
    Watch,
    /// Take the lock from `holder`.
    Revoke {
        /// The lock.
        key: Key,
        /// The holder, as `Inspect` showed it.
        holder: OwnerBytes,
        /// The owner that replaces the holder until the holder's deadline.
        by: Owner,
        /// The text that people see for `by`.
        label: Label,
        /// When the lock becomes free.
        when: When,
    },
    /// End the lease now, as if its time had come. For tests.
    Expire {
        /// The lock.
        key: Key,
    },
    /// Ask who holds the lock.
    Inspect {
        /// The lock.
        key: Key,
    },
    /// Ask which locks are held.
    List {
        /// The beginning of their keys.
        beginning: Key,
    },
}

/// The answers of the server.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The request was done; there is nothing else to tell.
    Done,
    /// The owner holds the lock.
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// The time that is left of the lease.
        left: Duration,
    },
    /// The owner holds the lock, and its predecessor does not any more.
    Succeeded {
        /// The token of the grant.
        token: FencingToken,
        /// The time that is left of the lease.
        left: Duration,
        /// Other clients listen.
        others: bool,
    },
    /// Another owner holds it.
    Busy {
        /// The time that is left of that lease.
        left: Duration,
    },
    /// The attempt or the takeover came after its deadline, or once more after a revoke. It was not done.
    Refused,
    /// The lock is kept.
    Renewed {
        /// The time that is left of the lease.
        left: Duration,
    },
    /// The owner does not hold the lock, for this reason.
    Lost(LossReason),
    /// The lock is free.
    Released {
        /// Other clients listen.
        others: bool,
    },
    /// The owner had nothing to release, or the predecessor nothing to hand over.
    NotHeld,
    /// The outcome of a revoke.
    Revoked(Revoked),
    /// Who holds the lock.
    Holder(Option<Entry>),
    /// The locks that are held.
    Listed(Vec<Key>),
}

/// The notifications that the server pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The lock has become free.
    Released(Key),
    /// The lock that this owner holds was revoked.
    Revoked(Owner),
}
