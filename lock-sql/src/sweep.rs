//! Deletes the rows of locks that no client has held for a day, a few rows at a time.
//!
//! A row outlives its lock because it carries the token. Once the clock is a day beyond the token, the next token is
//! higher even without the row.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Clock, Result};

/// How far the clock must be beyond a token before the row with that token is deleted. No reading of the clock may be
/// further than this below another reading.
pub(crate) const IDLE_BEFORE_DELETE: Duration = Duration::from_secs(24 * 3600);

/// How many rows one sweep reads. This is more than the number of locks that can have been added since the last sweep,
/// so that rows of names that are used only once don't accumulate.
pub(crate) const ROWS: i64 = 200;

/// How many releases there are between two sweeps.
const RELEASES: u32 = 100;

const PATIENCE: Duration = Duration::from_secs(1);

/// Where the last sweep of a table ended.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    releases: AtomicU32,
    after: Arc<Mutex<Vec<u8>>>,
}

/// What a sweep read.
#[derive(Debug)]
pub(crate) struct Swept {
    /// The number of rows.
    pub(crate) rows: i64,
    /// The name of the last of these rows.
    pub(crate) last: Option<Vec<u8>>,
}

impl Sweep {
    /// Starts a sweep at each hundredth release. The release doesn't wait for the sweep. `sweep` continues behind the
    /// name that it is given, in the order of names.
    pub(crate) fn after_a_release<S>(&self, clock: &Clock, sweep: impl FnOnce(Call, Vec<u8>) -> S)
    where
        S: Future<Output = Result<Swept>> + Send + 'static,
    {
        if self.releases.fetch_add(1, Ordering::Relaxed) % RELEASES != RELEASES - 1 {
            return;
        }
        let after = self.after.clone();
        let from = after.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sweep = sweep(Call::begin(clock, PATIENCE), from);
        tokio::spawn(async move {
            // If a sweep fails, a later one reads the same rows.
            if let Ok(Swept { rows, last }) = sweep.await {
                let next = last.filter(|_| rows == ROWS).unwrap_or_default();
                *after.lock().unwrap_or_else(PoisonError::into_inner) = next;
            }
        });
    }
}
