//! The log of a history: what callers and servers did, and which faults there were, in the order of time.

mod details;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::driver::When;
use lock_core::{Ending, LossReason};

pub use self::details::{Claim, Fate, Parting, Terms, Wait, Why};
use super::faults::Fault;
use super::ids::{CallId, LockId};
use super::rules::Rules;
use super::timeline::{Micros, Timeline};

/// An entry of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it happened, in microseconds of simulated time, which no machine can read.
    pub at: u64,
    /// The event.
    pub what: What,
}

/// The kinds of entries.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The history begins.
    Opens(Rules),
    /// A caller asks for a lock.
    Asked {
        /// The number of this call.
        call: CallId,
        /// The client.
        client: usize,
        /// The lock.
        lock: LockId,
        /// The terms.
        terms: Terms,
        /// The longest time that the call waits for the lock.
        waits: Wait,
    },
    /// A call has its guard.
    Granted {
        /// The call.
        call: CallId,
        /// The guard's token.
        token: u64,
        /// True if its lease had already ended.
        late: bool,
    },
    /// A call gets no guard.
    NotGranted {
        /// The call.
        call: CallId,
        /// The reason that it was given.
        why: Why,
    },
    /// A guard that was looked at says that it is held.
    Held {
        /// The call.
        call: CallId,
        /// The time for which the guard is certain to be held, by its client's clock, in microseconds.
        left: u64,
    },
    /// The holder asks for a renewal.
    Renews(CallId),
    /// The renewal has succeeded.
    Renewed(CallId),
    /// A holder is told that its lock is lost.
    Told {
        /// The call.
        call: CallId,
        /// The cause, if the holder was told one.
        cause: Option<LossReason>,
        /// The time since the guard's own deadline, in microseconds, not counting the time in which its machine stood
        /// still.
        late: u64,
        /// The time until that deadline, in microseconds.
        left: u64,
    },
    /// A holder gives up its guard.
    LetGo {
        /// The call.
        call: CallId,
        /// The way in which the holder gives it up.
        parting: Parting,
        /// The time for which the guard was certain to be held then, by its client's clock, in microseconds.
        left: u64,
    },
    /// A release is answered.
    Ended {
        /// The call.
        call: CallId,
        /// The answer.
        ending: Ending,
    },
    /// The caller goes away before its release is answered.
    Left(CallId),
    /// A write arrives at the fenced resource.
    Wrote {
        /// The call.
        call: CallId,
        /// The token of the write.
        token: u64,
        /// True if the resource took it.
        accepted: bool,
    },
    /// A process has a lock, as far as it knows.
    ClaimBegins(Claim),
    /// A process knows that it has lost a lock, and gives it up.
    ClaimLost(Claim),
    /// A process knows that it no longer has a lock: its release was answered, or its lease has ended.
    ClaimEnds(Claim),
    /// A caller revokes a lock from its holder.
    Revokes {
        /// The number of this call.
        call: CallId,
        /// The client.
        client: usize,
        /// The lock.
        lock: LockId,
        /// When the lock is to become free.
        when: When,
    },
    /// The holder of a lock at the server has changed.
    Holder {
        /// The lock.
        lock: LockId,
        /// The new holder; none if the lock is free.
        call: Option<CallId>,
    },
    /// The set of calls that have a lock on any of several servers has changed.
    Parts {
        /// The lock.
        lock: LockId,
        /// The calls that have it on at least one server.
        calls: Vec<CallId>,
    },
    /// The set of calls that have a place in a lock's queue, the holder included, has changed.
    Places {
        /// The lock.
        lock: LockId,
        /// The calls. Their order has no meaning.
        calls: Vec<CallId>,
    },
    /// The server ended a grant early, or may end it early.
    Shortened {
        /// The call.
        call: CallId,
        /// The highest token that the grant may have.
        token: u64,
        /// When it would have ended by itself, at the latest, in microseconds.
        until: u64,
    },
    /// The grant that was to end early is kept for as long as its holder may rely on it.
    Restored(CallId),
    /// A message between a client and a server was lost, late or doubled, or came to a server without a vote.
    Missed {
        /// The client.
        client: usize,
        /// The server.
        server: usize,
        /// Its fate.
        fate: Fate,
    },
    /// A release arrives at the server.
    ReleaseArrived {
        /// The call that it belongs to, if an attempt of that call has arrived before.
        of: Option<CallId>,
        /// The holder right before it.
        before: Option<CallId>,
        /// The holder right after it.
        after: Option<CallId>,
    },
    /// One of several servers ended its part of a hold when the first release of it came there.
    PartReleased {
        /// The call that it belongs to.
        call: CallId,
        /// The try of the call that the server had granted. Only one try of a call becomes a hold.
        grant: u64,
        /// The server.
        server: usize,
    },
    /// The release that is logged next gave back what a revoke had left in the place of the revoked holder, whose call
    /// this is.
    GivenBack(CallId),
    /// A fault begins.
    Begins(Fault),
    /// A fault is over.
    Over(Fault),
    /// A client was shut down. The shutdown waits for the client's claims to end.
    ShutDown {
        /// The client.
        client: usize,
        /// The number of claims that were left when the time limit was over.
        left: usize,
    },
    /// The calls that are left on the servers when all clients are shut down and the last lease is over.
    Remains {
        /// The lock.
        lock: LockId,
        /// The calls that still have a place or a lease.
        calls: Vec<CallId>,
    },
}

/// The log of a history. Cheap to clone; all clones share one log.
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
    /// Returns whether the entry says something about this call, or something that may matter to any call.
    pub(super) fn concerns(&self, wanted: CallId) -> bool {
        match self {
            What::Asked { call, .. }
            | What::Granted { call, .. }
            | What::NotGranted { call, .. }
            | What::Held { call, .. }
            | What::Renews(call)
            | What::Renewed(call)
            | What::Told { call, .. }
            | What::LetGo { call, .. }
            | What::GivenBack(call)
            | What::PartReleased { call, .. }
            | What::Ended { call, .. }
            | What::Left(call)
            | What::Wrote { call, .. }
            | What::Shortened { call, .. }
            | What::Restored(call) => *call == wanted,
            What::ReleaseArrived { of, before, after } => {
                [of, before, after].into_iter().any(|call| *call == Some(wanted))
            }
            What::ClaimBegins(_) | What::ClaimLost(_) | What::ClaimEnds(_) | What::Missed { .. } => false,
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
