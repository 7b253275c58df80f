//! What happened, in the order in which it did: the callers' side and the server's, and the faults.

mod details;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::driver::When;
use lock_core::{Cause, Ending};

pub use self::details::{Fate, Parting, Rules, Terms, Wait, WakesBy, Why};
use super::faults::Fault;
use super::timeline::{Micros, Timeline};

/// A call, counted from zero: one that wants a lock, or one that takes it from its holder.
pub type CallId = usize;

/// A lock, counted from zero.
pub type LockId = usize;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When, in microseconds of a time that no machine can read.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The history begins.
    Opens(Rules),
    /// A caller asks for a lock.
    Asked {
        /// Which call this is.
        call: CallId,
        /// Whose.
        client: usize,
        /// For which lock.
        lock: LockId,
        /// On what terms.
        terms: Terms,
        /// How long it waits for it.
        waits: Wait,
    },
    /// It has a guard.
    Granted {
        /// Which call.
        call: CallId,
        /// The guard's token.
        token: u64,
        /// Whether its lease had ended by then.
        late: bool,
    },
    /// It gets none.
    NotGranted {
        /// Which call.
        call: CallId,
        /// What it was told.
        why: Why,
    },
    /// A guard that was looked at says that it is held.
    Held {
        /// Which call's.
        call: CallId,
        /// For how long it is certain, by its own clock.
        left: u64,
    },
    /// A guard's holder asks for a renewal.
    Renews {
        /// Which call's.
        call: CallId,
    },
    /// And has it.
    Renewed {
        /// Which call's.
        call: CallId,
    },
    /// A guard's holder is told that the lock is lost.
    Told {
        /// Which call's.
        call: CallId,
        /// Why, where it was said.
        cause: Option<Cause>,
        /// How long after the guard's own deadline, not counting the time in which its machine stood still.
        late: u64,
        /// How long before it.
        left: u64,
    },
    /// The holder parts with its guard.
    LetGo {
        /// Which call's.
        call: CallId,
        /// How.
        parting: Parting,
        /// For how long it was certain then, by its own clock.
        left: u64,
    },
    /// The release is answered.
    Ended {
        /// Which call's.
        call: CallId,
        /// With what.
        ending: Ending,
    },
    /// The caller goes away before that.
    Left {
        /// Which call's.
        call: CallId,
    },
    /// A write arrives at the fenced resource.
    Wrote {
        /// Whose.
        call: CallId,
        /// With which token.
        token: u64,
        /// Whether the resource took it.
        accepted: bool,
    },
    /// A process has a lock, as far as it knows.
    ClaimBegins {
        /// Which client.
        client: usize,
        /// Which lock.
        lock: LockId,
    },
    /// A process knows that it has lost it, and gives it up.
    ClaimLost {
        /// Which client.
        client: usize,
        /// Which lock.
        lock: LockId,
    },
    /// A process knows that it no longer has it: its release was answered, or its lease has ended.
    ClaimEnds {
        /// Which client.
        client: usize,
        /// Which lock.
        lock: LockId,
    },
    /// A caller takes a lock from its holder.
    Revokes {
        /// Which call this is.
        call: CallId,
        /// Whose.
        client: usize,
        /// Which lock.
        lock: LockId,
        /// When it is to become free.
        when: When,
    },
    /// The server has another holder than before.
    Holder {
        /// Of which lock.
        lock: LockId,
        /// Which call's; nobody's, if none.
        call: Option<CallId>,
    },
    /// On some of several servers the lock is these calls'.
    Parts {
        /// Which lock.
        lock: LockId,
        /// Whose it is anywhere.
        calls: Vec<CallId>,
    },
    /// The server keeps places for these calls, the holder's included.
    Places {
        /// In the queue of which lock.
        lock: LockId,
        /// In no order that says anything.
        calls: Vec<CallId>,
    },
    /// The server ended, or may end, what it had granted before its time.
    Shortened {
        /// Which call's.
        call: CallId,
        /// Granted with this token.
        token: u64,
        /// When it would have ended by itself, at the latest.
        until: u64,
    },
    /// What was to end before its time is kept for as long as its holder may believe in it.
    Restored {
        /// Which call's.
        call: CallId,
    },
    /// A message between a client and a server did not come as it should.
    Missed {
        /// Which client.
        client: usize,
        /// Which server.
        server: usize,
        /// What became of it.
        fate: Fate,
    },
    /// A release arrives at the server.
    ReleaseArrived {
        /// Which call's, if any of its attempts has arrived before.
        of: Option<CallId>,
        /// Who held the lock right before.
        before: Option<CallId>,
        /// Who holds it right after.
        after: Option<CallId>,
    },
    /// That release gave back what a revoke had left in its owner's place.
    GivenBack {
        /// Whose.
        call: CallId,
    },
    /// A fault begins.
    Begins(Fault),
    /// A fault is over.
    Over(Fault),
    /// A client was shut down, which waits for its claims.
    ShutDown {
        /// Which.
        client: usize,
        /// How many claims were left when the time was over.
        left: usize,
    },
    /// The servers are looked at when all clients are shut down and the last lease is over.
    Remains {
        /// Of which lock.
        lock: LockId,
        /// Whose places and leases are there.
        calls: Vec<CallId>,
    },
}

/// The log of a history. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(super) struct Log {
    timeline: Timeline,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Log {
    pub(super) fn new(timeline: Timeline) -> Log {
        Log { timeline, entries: Arc::default() }
    }

    pub(super) fn write(&self, what: What) {
        let at: Micros = self.timeline.now();
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(Entry { at, what });
    }

    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl What {
    /// Whether it says something of this call.
    pub(super) fn concerns(&self, wanted: CallId) -> bool {
        match self {
            What::Asked { call, .. }
            | What::Granted { call, .. }
            | What::NotGranted { call, .. }
            | What::Held { call, .. }
            | What::Renews { call }
            | What::Renewed { call }
            | What::Told { call, .. }
            | What::LetGo { call, .. }
            | What::GivenBack { call }
            | What::Ended { call, .. }
            | What::Left { call }
            | What::Wrote { call, .. }
            | What::Shortened { call, .. }
            | What::Restored { call } => *call == wanted,
            What::ReleaseArrived { of, before, after } => {
                [of, before, after].into_iter().any(|call| *call == Some(wanted))
            }
            What::ClaimBegins { .. } | What::ClaimLost { .. } | What::ClaimEnds { .. } => false,
            What::Missed { .. } => false,
            What::Opens(_) | What::Places { .. } | What::Remains { .. } => true,
            What::Revokes { .. } | What::Holder { .. } | What::Parts { .. } | What::ShutDown { .. } => true,
            What::Begins(_) | What::Over(_) => true,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8}.{:03} ms  {:?}", self.at / 1000, self.at % 1000, self.what)
    }
}
