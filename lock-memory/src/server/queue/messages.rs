//! The messages between a client and a queue server.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::driver::{Inspection, Queueing, Revoked, When};
use lock_core::{FencingToken, Label, Owner, OwnerBytes};

use crate::server::Key;

/// A session. The server numbers sessions and never uses a number twice, so a late message for an old session reaches
/// no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(super) u64);

/// An owner and the lock that it asks for or holds.
pub type Claimed = (Owner, Key);

/// The requests to the server.
#[derive(Clone, Debug)]
pub enum Request {
    /// Ask for the server's time.
    Time,
    /// Open a session that ends this long after its last request. A request that arrives twice opens two.
    OpenSession {
        /// The time from its last request until the session ends by itself.
        timeout: Duration,
    },
    /// Keep the session alive, and tell what it has.
    Heartbeat {
        /// The session.
        session: SessionId,
    },
    /// End the session and everything that it has.
    CloseSession {
        /// The session.
        session: SessionId,
    },
    /// Take a place in the lock's queue; the first place holds the lock. An owner that has a place keeps it.
    Attempt {
        /// The lock.
        key: Key,
        /// The owner that asks for it.
        owner: Owner,
        /// The text that people see for the owner.
        label: Label,
        /// The session that the place belongs to. This request keeps it alive, as a heartbeat does.
        session: SessionId,
        /// Numbers this owner's attempts, so that a release can name the last one that it means.
        serial: u64,
        /// With `No`, the attempt takes the first place or none.
        waits: Queueing,
    },
    /// Release the place that the owner's attempts up to this serial have got.
    Release {
        /// The lock.
        key: Key,
        /// The owner that should have the place.
        owner: Owner,
        /// The serial of its last attempt. A release that is late can't touch what a later attempt has got.
        serial: u64,
        /// The session of those attempts, if one of them may still be on its way. A tombstone in that session refuses
        /// it. The tombstone lasts as long as the session, which is as long as the attempt could do harm.
        defeat: Option<SessionId>,
    },
    /// Take the lock from `holder`.
    Revoke {
        /// The lock.
        key: Key,
        /// The holder, as `Inspect` showed it.
        holder: OwnerBytes,
        /// The owner that has the place until the holder's deadline.
        by: Owner,
        /// The text that people see for `by`.
        label: Label,
        /// When the lock becomes free.
        when: When,
    },
    /// End the holder's session now, as if its time had come. For tests.
    Expire {
        /// The lock.
        key: Key,
    },
    /// Ask who holds the lock, and who waits.
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
    /// A session was opened.
    Opened(SessionId),
    /// The session is kept. This is everything that it has, and what was revoked from it.
    Kept(BTreeMap<Claimed, Standing>),
    /// The session has ended, and nothing of it is left.
    NoSession,
    /// The owner holds the lock.
    Granted(FencingToken),
    /// Another owner holds it.
    Busy {
        /// The owner has a place now.
        queued: bool,
    },
    /// The release of this attempt came before it. It was not done.
    Refused,
    /// The place was released.
    Released {
        /// Other clients have places.
        others: bool,
    },
    /// The owner had nothing to release.
    NotHeld,
    /// The outcome of a revoke.
    Revoked(Revoked),
    /// Who holds the lock, and who waits.
    Inspected(Inspection),
    /// The locks that are held.
    Listed(Vec<Key>),
}

/// The state of a claim on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The owner holds the lock, with this token.
    Holds(FencingToken),
    /// The owner waits behind another one.
    Waits,
    /// The owner held the lock, which was revoked.
    Revoked,
}

/// The place of this owner, or the place in front of it, is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved(pub Owner);
