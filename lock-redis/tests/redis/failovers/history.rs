//! The history of grants, writes and losses, in the order in which they happened.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::{Fence, Guard, LossReason};

/// The way in which a primary is made to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// The primary is killed when it has granted locks of which no replica knows.
    KilledAhead,
    /// The primary stands still, and goes on when it has a successor.
    Frozen,
    /// Another server is told to take its place.
    Switched,
    /// The same, and meanwhile it lets clients wait that write.
    HandedOver,
    Killed,
}

/// The possible harm of a failover to exclusion. Replication is asynchronous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The old primary answers no client from when the new one has all that it granted.
    Nothing,
    /// The new primary may know nothing of the last grants of the old one.
    GrantsAreLost,
    /// And the old one may take locks beside it, until it is a replica.
    TwoAnswer,
}

/// One failover.
#[derive(Debug)]
pub(super) struct Failover {
    pub(super) group: usize,
    pub(super) way: Way,
    pub(super) harm: Harm,
    /// Before anything was done to the primary or its replicas.
    pub(super) began: Instant,
    /// The old primary is a replica of the new one.
    pub(super) settled: Instant,
}

/// A lock that was held.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The number of its name.
    pub(super) name: usize,
    pub(super) token: u64,
    /// The caller had the guard at this moment, and it was held after it.
    pub(super) granted: Instant,
    /// The last moment at which it was seen held.
    pub(super) last_held: Instant,
    /// If it was lost before it was released.
    pub(super) lost: Option<Loss>,
}

/// The loss of a lock, as reported to its holder.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) why: LossReason,
    pub(super) told: Instant,
    /// Until when the guard had said that the lock was certain.
    pub(super) deadline: Instant,
}

/// The resource's answer to a holder.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) name: usize,
    pub(super) token: u64,
    pub(super) is_accepted: bool,
    /// The guard said before and after the write that the lock is held.
    pub(super) is_held: bool,
}

/// All that happens, as clients and the resource see it.
#[derive(Debug)]
pub(super) struct History {
    /// The resource behind each name.
    fences: Vec<Fence>,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    held: Vec<Held>,
    writes: Vec<Write>,
    /// The names that were granted, and when.
    granted: Vec<(usize, Instant)>,
}

impl History {
    pub(super) fn of(names: usize) -> History {
        let fences = (0..names).map(|_| Fence::new()).collect();
        History { fences, entries: Mutex::default() }
    }

    pub(super) fn granted(&self, name: usize, at: Instant) {
        self.entries().granted.push((name, at));
    }

    /// Offers the guard's token to the resource.
    pub(super) fn write(&self, name: usize, guard: &Guard) {
        // One write at a time, so that the entries have the order of the resource.
        let mut entries = self.entries();
        let before = guard.is_held();
        let is_accepted = self.fences[name].accept(guard.token()).is_ok();
        let is_held = before && guard.is_held();
        entries.writes.push(Write { name, token: guard.token().get(), is_accepted, is_held });
    }

    pub(super) fn ended(&self, held: Held) {
        self.entries().held.push(held);
    }

    /// Waits for a grant of one of these names after this moment, and returns when it was.
    pub(super) async fn grant_after(&self, names: &[usize], moment: Instant) -> Instant {
        loop {
            let is_such = |(name, at): &&(usize, Instant)| names.contains(name) && *at > moment;
            let found = self.entries().granted.iter().find(is_such).copied();
            if let Some((_, at)) = found {
                return at;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns what was held, in the order of the grants.
    pub(super) fn held(&self) -> Vec<Held> {
        let mut held = self.entries().held.clone();
        held.sort_by_key(|held| held.granted);
        held
    }

    /// Returns what was written, in the order of the resource.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.entries().writes.clone()
    }

    /// No code panics while it holds this mutex.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
