//! The orders that the proxy was given, and the acts that it did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Answers.
    ToClient,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];
}

/// A thing that the proxy does to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A chunk was delayed.
    Delayed(Direction),
    /// A chunk was handed on byte by byte.
    Trickled(Direction),
    /// A connection's chunk was held. Those behind it on the same connection are not counted.
    Held(Direction),
    /// A chunk that was held has been handed on.
    Late(Direction),
    /// A chunk that was held is lost.
    Lost(Direction),
    /// A chunk was lost.
    Swallowed(Direction),
    /// A request was carried out twice.
    Doubled,
    /// An open connection was cut.
    Cut,
    /// A new connection was refused.
    Refused,
}

/// The number of times that each fault took effect. A fault that was ordered and took no effect has a zero.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<BTreeMap<Fault, u64>>);

impl Log {
    pub(super) fn order(&self, fault: Fault) {
        self.entries().entry(fault).or_default();
    }

    pub(super) fn happened(&self, fault: Fault) {
        *self.entries().entry(fault).or_default() += 1;
    }

    pub(super) fn count(&self, fault: Fault) -> u64 {
        self.entries().get(&fault).copied().unwrap_or(0)
    }

    pub(super) fn without_effect(&self) -> BTreeSet<Fault> {
        self.entries().iter().filter(|(_, count)| **count == 0).map(|(fault, _)| *fault).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Fault, u64>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
