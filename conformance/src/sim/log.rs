//! What happened, in the order in which it did: the callers' side and the server's, and the faults.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::{Cause, Ending};

use super::faults::Fault;
use super::timeline::{Micros, Timeline};

/// A call that wants the lock, counted from zero.
pub type CallId = usize;

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
    /// A caller asks for the lock.
    Asked {
        /// Which call this is.
        call: CallId,
        /// Whose.
        client: usize,
    },
    /// It has a guard.
    Granted {
        /// Which call.
        call: CallId,
        /// The guard's token.
        token: u64,
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
    },
    /// A guard's holder is told that the lock is lost.
    Told {
        /// Which call's.
        call: CallId,
        /// Why, where it was said.
        cause: Option<Cause>,
        /// How long after the guard's own deadline, not counting the time in which its machine stood still.
        late: u64,
    },
    /// The holder gives the lock back, or drops its guard.
    LetGo {
        /// Which call's.
        call: CallId,
    },
    /// The release is answered.
    Ended {
        /// Which call's.
        call: CallId,
        /// With what.
        ending: Ending,
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
    /// A process has the lock, as far as it knows.
    ClaimBegins {
        /// Which client.
        client: usize,
    },
    /// A process knows that it no longer has it: its release was answered, or its lease has ended.
    ClaimEnds {
        /// Which client.
        client: usize,
    },
    /// The server has another holder than before.
    Holder {
        /// Which call's; nobody's, if none.
        call: Option<CallId>,
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
}

/// Why a caller has no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody else holds the lock.
    Busy,
    /// Somebody else held it until the wait was over.
    Timeout,
    /// The server did not answer.
    Unavailable,
    /// It was lost before the caller had it.
    Lost,
    /// The caller went away.
    Cancelled,
    /// What no history has a reason for.
    Unexpected,
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
            | What::Held { call }
            | What::Told { call, .. }
            | What::LetGo { call }
            | What::Ended { call, .. }
            | What::Wrote { call, .. } => *call == wanted,
            What::ReleaseArrived { of, before, after } => {
                [of, before, after].into_iter().any(|call| *call == Some(wanted))
            }
            What::ClaimBegins { .. } | What::ClaimEnds { .. } => false,
            What::Holder { .. } | What::Begins(_) | What::Over(_) | What::ShutDown { .. } => true,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8}.{:03} ms  {:?}", self.at / 1000, self.at % 1000, self.what)
    }
}
