//! What a client and a queue server say to each other.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::driver::{Inspection, Revoked, Waits, When};
use lock_core::{FencingToken, Label, Owner, OwnerBytes};

use crate::server::Key;

/// A session. The server numbers them and uses no number twice, so that what is late for an old one meets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(super) u64);

/// One owner's business with one lock.
pub type Claimed = (Owner, Key);

/// What the server can be asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// What time is it?
    Time,
    /// Open a session that ends this long after its last request. Asked twice, it opens two.
    OpenSession {
        /// Until it ends by itself.
        timeout: Duration,
    },
    /// Keep the session, and say what it has.
    Heartbeat {
        /// The session.
        session: SessionId,
    },
    /// End the session and all that it has.
    CloseSession {
        /// The session.
        session: SessionId,
    },
    /// Take a place in the lock's queue; the first one holds it. An owner that has a place keeps it.
    Attempt {
        /// The lock.
        key: Key,
        /// For whom.
        owner: Owner,
        /// What people are shown of the owner.
        label: Label,
        /// What the place belongs to. It is kept by this request as by a heartbeat.
        session: SessionId,
        /// Numbers this owner's attempts, so that a release can say which of them it means.
        serial: u64,
        /// `No` takes the first place or none.
        waits: Waits,
    },
    /// Give up the place that the owner's attempts up to this one have got.
    Release {
        /// The lock.
        key: Key,
        /// Whose place it should be.
        owner: Owner,
        /// Of its last attempt. A release that is late can't touch what a later attempt has got.
        serial: u64,
        /// The session of those attempts, if one of them may still be on its way: a tombstone there refuses it. It
        /// lasts as long as the session, which is as long as the attempt could do harm.
        defeat: Option<SessionId>,
    },
    /// Take the lock from `holder`.
    Revoke {
        /// The lock.
        key: Key,
        /// As `Inspect` showed it.
        holder: OwnerBytes,
        /// Who has the place until the holder's deadline.
        by: Owner,
        /// What people are shown of `by`.
        label: Label,
        /// When the lock becomes free.
        when: When,
    },
    /// End the holder's session now, as if its time had come. For tests.
    Expire {
        /// The lock.
        key: Key,
    },
    /// Who holds the lock, and who waits?
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
    /// A new session.
    Opened(SessionId),
    /// The session is kept; this is all that it has, and what it was deprived of.
    Kept(BTreeMap<Claimed, Standing>),
    /// The session is over, and nothing of it is left.
    NoSession,
    /// The lock is the owner's.
    Granted(FencingToken),
    /// It is somebody else's.
    Busy {
        /// Whether the owner has a place now.
        queued: bool,
    },
    /// An attempt that was defeated before it came: not done.
    Refused,
    /// The place is free.
    Released {
        /// Whether other clients have places.
        others: bool,
    },
    /// There was nothing of that owner's.
    NotHeld,
    /// What became of a revoke.
    Revoked(Revoked),
    /// Who holds the lock, and who waits.
    Inspected(Inspection),
}

/// How a claim stands at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds the lock, with this token.
    Holds(FencingToken),
    /// It has a place behind others.
    Waits,
    /// It held the lock, which was taken from it.
    Revoked,
}

/// The place of this owner, or the one in front of it, has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved(pub Owner);
