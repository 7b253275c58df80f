//! Deletes the rows of locks that no client has held for a day, a few rows at a time.
//!
//! A row outlives its lock because it carries the token. Once the clock is a day beyond the token, the next token is
//! higher even without the row.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::toolkit::Call;
use lock_core::{Clock, Result};

/// The time by which the clock must be beyond a token before the row with that token is deleted. No reading of the
/// clock may be further than this below another reading.
pub(crate) const IDLE_BEFORE_DELETE: Duration = Duration::from_secs(24 * 3600);

/// The number of rows that a sweep reads at once.
pub(crate) const ROWS: i64 = 200;

/// The number of times that a sweep reads on, as long as it finds rows to delete. So many rows are more than the number
/// of locks that can have been added since the last sweep, so that rows of names that are used only once don't
/// accumulate.
const READS: usize = 16;

/// The number of releases that there are between two sweeps. As a rule a sweep finds nothing to delete, and each costs
/// the server as much as several locks.
const RELEASES: u32 = 400;

const PATIENCE: Duration = Duration::from_secs(1);

/// The row at which the last sweep of a table ended.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    releases: AtomicU32,
    after: Arc<Mutex<Vec<u8>>>,
}

/// A dialect's sweep of the rows of its table.
pub(crate) trait Rows: Send + Sync + 'static {
    /// Reads the next [`ROWS`] rows behind the name `from`, in the order of names, and deletes those that are idle.
    fn sweep(&self, call: &Call, from: Vec<u8>) -> impl Future<Output = Result<Swept>> + Send;
}

/// The result of one sweep's read.
#[derive(Debug)]
pub(crate) struct Swept {
    /// The number of rows.
    pub(crate) rows: i64,
    /// The name of the last of these rows.
    pub(crate) last: Option<Vec<u8>>,
    /// The number of idle ones among them.
    pub(crate) idle: i64,
}

impl Sweep {
    /// Starts a sweep of `rows` after each so many releases. The release doesn't wait for it.
    pub(crate) fn after_a_release<R: Rows>(&self, clock: &Clock, rows: impl FnOnce() -> R) {
        if self.releases.fetch_add(1, Ordering::Relaxed) % RELEASES != RELEASES - 1 {
            return;
        }
        tokio::spawn(sweep(rows(), clock.clone(), self.after.clone()));
    }
}

async fn sweep(rows: impl Rows, clock: Clock, after: Arc<Mutex<Vec<u8>>>) {
    let after = || after.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..READS {
        let from = after().clone();
        let began_at_first = from.is_empty();
        // If a sweep fails, a later one reads the same rows.
        let Ok(swept) = rows.sweep(&Call::begin(&clock, PATIENCE), from).await else { return };
        let is_end = swept.rows < ROWS;
        *after() = swept.last.filter(|_| !is_end).unwrap_or_default();
        // At the end of the table it goes on at the beginning, unless it began there.
        if (is_end && began_at_first) || (!is_end && swept.idle == 0) {
            return;
        }
    }
}
