//! Rows of locks that nobody has had for a day are deleted, a few at a time.
//!
//! A row outlives its lock because it carries the token. Once the clock stands a day beyond the token, the next one is
//! higher without it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Clock, Result};

/// How far the clock has to stand beyond a token that is forgotten; no reading of it may lie further below another.
pub(crate) const IDLE: Duration = Duration::from_secs(24 * 3600);

/// How many rows one sweep looks at: more than locks can have been added since the last one, so that names that are used
/// once don't add up.
pub(crate) const ROWS: i64 = 200;

/// Between two sweeps.
const RELEASES: u32 = 100;

const PATIENCE: Duration = Duration::from_secs(1);

/// Where the last sweep of a table ended.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    releases: AtomicU32,
    after: Arc<Mutex<Vec<u8>>>,
}

/// What a sweep saw.
#[derive(Debug)]
pub(crate) struct Swept {
    /// How many rows.
    pub(crate) rows: i64,
    /// The last of them.
    pub(crate) last: Option<Vec<u8>>,
}

impl Sweep {
    /// Sweeps beside each hundredth release, which doesn't wait for it. `sweep` goes on behind the name that it is given,
    /// in the order of names.
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
            // What was not swept is swept another time.
            if let Ok(Swept { rows, last }) = sweep.await {
                let next = last.filter(|_| rows == ROWS).unwrap_or_default();
                *after.lock().unwrap_or_else(PoisonError::into_inner) = next;
            }
        });
    }
}
