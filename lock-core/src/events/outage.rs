//! The outages of a connection that are already logged: many locks share it, and each notices that it is
//! dead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::error::ErrorKind;

/// A connection works again when a call succeeds and none has failed for so long. Otherwise a connection that fails now
/// and then would be told each time.
const QUIET: Duration = Duration::from_secs(5);

/// The kinds of trouble that a connection has now.
pub(super) struct Outage {
    clock: Clock,
    /// There is trouble, so that a call which succeeds takes no lock.
    is_on: AtomicBool,
    trouble: Mutex<Trouble>,
}

#[derive(Default)]
struct Trouble {
    kinds: Vec<ErrorKind>,
    last: Option<Instant>,
}

/// The news value of one kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    First,
    Again,
}

impl Outage {
    pub(super) fn new(clock: Clock) -> Outage {
        Outage { clock, is_on: AtomicBool::new(false), trouble: Mutex::default() }
    }

    /// Notes a call that has failed.
    pub(super) fn goes_on(&self, kind: ErrorKind) -> News {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.last = Some(self.clock.now());
        self.is_on.store(true, Ordering::Relaxed);
        if trouble.kinds.contains(&kind) {
            return News::Again;
        }
        trouble.kinds.push(kind);
        News::First
    }

    /// Notes a call that has succeeded. Returns whether that is the end of the trouble.
    pub(super) fn ends(&self) -> bool {
        if !self.is_on.load(Ordering::Relaxed) {
            return false;
        }
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = trouble.last.is_some_and(|last| self.clock.now().since(last) >= QUIET);
        if is_over {
            *trouble = Trouble::default();
            self.is_on.store(false, Ordering::Relaxed);
        }
        is_over
    }
}
