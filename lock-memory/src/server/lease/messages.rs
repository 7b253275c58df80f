//! What a client and a lease server say to each other.

use std::time::Duration;

use lock_core::driver::{Entry, Revoked, When};
use lock_core::{Cause, FencingToken, Label, Owner, OwnerBytes};

use crate::server::Key;
use crate::time::ServerTime;

/// What the server can be asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// What time is it?
    Time,
    /// Take the lock if it is free, but not after `deadline`, when nobody waits for the answer any more.
    ///
    /// What a network delivers a second time, after the release and before the deadline, takes the lock once more, for
    /// one `ttl`: as on Redis, that is a delay and no danger, because nobody believes in that lock.
    Attempt {
        /// The lock.
        key: Key,
        /// For whom.
        owner: Owner,
        /// What people are shown of the owner.
        label: Label,
        /// For how long.
        ttl: Duration,
        /// In this server's time.
        deadline: ServerTime,
    },
    /// Keep the lock for `ttl` from now, or for as long as it is kept anyway.
    Renew {
        /// The lock.
        key: Key,
        /// Whose it should be.
        owner: Owner,
        /// For how long.
        ttl: Duration,
    },
    /// Free the lock if it is this owner's, or was revoked from it and has no other owner yet.
    Release {
        /// The lock.
        key: Key,
        /// Whose it should be.
        owner: Owner,
    },
    /// Push a [`Told::Released`] to this client whenever the lock becomes free by a request.
    Listen {
        /// The lock.
        key: Key,
        /// Numbers the client's wishes, so that one which is late can't undo a newer one.
        serial: u64,
    },
    /// Undo the `Listen` of this serial, or of an earlier one.
    Unlisten {
        /// The lock.
        key: Key,
        /// Of the `Listen`.
        serial: u64,
    },
    /// Push a [`Told::Revoked`] to this client whenever any lock is revoked, from now on.
    Watch,
    /// Take the lock from `holder`.
    Revoke {
        /// The lock.
        key: Key,
        /// As `Inspect` showed it.
        holder: OwnerBytes,
        /// Who has it until the holder's deadline.
        by: Owner,
        /// What people are shown of `by`.
        label: Label,
        /// When the lock becomes free.
        when: When,
    },
    /// End the lease now, as if its time had come. For tests.
    Expire {
        /// The lock.
        key: Key,
    },
    /// Who holds the lock?
    Inspect {
        /// The lock.
        key: Key,
    },
}

/// What the server answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done; there is nothing to say.
    Done,
    /// The lock is the owner's.
    Granted {
        /// The grant's.
        token: FencingToken,
        /// What is left of the lease.
        left: Duration,
    },
    /// It is somebody else's.
    Busy {
        /// What is left of that lease.
        left: Duration,
    },
    /// An attempt that came after its deadline, or once more after a revoke: not done.
    Refused,
    /// The lock is kept.
    Renewed {
        /// What is left of the lease.
        left: Duration,
    },
    /// The lock is not the owner's, and why.
    Lost(Cause),
    /// The lock is free.
    Released {
        /// Whether other clients listen.
        others: bool,
    },
    /// There was nothing of that owner's.
    NotHeld,
    /// What became of a revoke.
    Revoked(Revoked),
    /// Who holds the lock.
    Holder(Option<Entry>),
}

/// What the server pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// This lock has become free.
    Released(Key),
    /// The lock that this owner holds was taken from it.
    Revoked(Owner),
}
