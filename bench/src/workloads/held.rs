//! `held`: many locks are held, and nothing else is done. It measures what their renewals cost.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::hold::Holding;
use crate::rounds::Measurement;
use crate::tally::Slice;

/// Locks that one client of this process holds.
pub(crate) struct Held {
    holding: Holding,
    ttl: Duration,
}

impl Held {
    pub(crate) async fn new(url: &str, locks: usize, ttl: Duration) -> Outcome<Held> {
        Ok(Held { holding: Holding::begin(url, locks, ttl).await?, ttl })
    }
}

#[async_trait]
impl Measurement for Held {
    /// The rate is that of the renewals. A lost lock is an error.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let idle = self.holding.watch(length).await;
        let mut slice = Slice { rate: idle.renewals_per_s(), ..Slice::default() };
        slice.errors.extend((0..idle.losses).map(|_| "a lock was lost although it was renewed".to_owned()));
        slice.extra = vec![("ttl_ms", self.ttl.as_secs_f64() * 1e3), ("troubles", idle.troubles as f64)];
        slice.extra.extend(idle.share_of_a_core().map(|share| ("core_share", share)));
        Ok(slice)
    }

    async fn end(self: Box<Self>) -> Outcome<()> {
        self.holding.release().await;
        Ok(())
    }
}
