//! One call of the driver, and how long it may still take.

use std::time::Duration;

use lock_core::{Clock, Instant};

/// A call in progress.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) clock: Clock,
    pub(crate) began: Instant,
    pub(crate) ends: Instant,
}

impl Call {
    pub(crate) fn begin(clock: &Clock, patience: Duration) -> Call {
        let began = clock.now();
        Call { clock: clock.clone(), began, ends: began + patience }
    }

    pub(crate) fn left(&self) -> Duration {
        self.ends.since(self.clock.now())
    }
}
