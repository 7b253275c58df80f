//! `held`: many locks are held, and nothing else is done. It measures what they and their renewals cost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_test_servers::Owned;

use crate::hold::Idle;
use crate::rounds::Measurement;
use crate::subjects::{Kind, TTL};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;
use crate::{Outcome, cpu};

/// Locks that one client of another process holds: what other measurements have left in this process's memory does not
/// count.
pub(crate) struct Held {
    process: OtherProcess,
    holding: Holding,
    /// Those that this program has started.
    servers: Arc<Vec<Owned>>,
}

/// What the process holds.
#[derive(Clone, Copy, Debug)]
struct Holding {
    locks: usize,
    ttl: Duration,
    /// How long it took to acquire them.
    took: Duration,
    /// By how much the process has grown for them.
    grown: Option<u64>,
}

impl Held {
    pub(crate) async fn new(
        url: &str,
        name: &str,
        locks: usize,
        ttl: Duration,
        servers: Arc<Vec<Owned>>,
    ) -> Outcome<Held> {
        let mut process = OtherProcess::start(Kind::Ours, url, name).await?;
        let (took, grown) = process.hold_many(locks, ttl).await?;
        Ok(Held { process, holding: Holding { locks, ttl, took, grown }, servers })
    }

    /// Returns the CPU time that the servers have used, where it is known.
    fn used_by_servers(&self) -> Option<Duration> {
        let processes: Vec<u32> = self.servers.iter().filter_map(Owned::process_id).collect();
        cpu::used_by(&processes)
    }
}

/// A lock is renewed after each third of its ttl.
const RENEWALS: u32 = 3;

/// Returns the ttl with which each lock is renewed at least once while it is watched for this long: the default one, if
/// there is time for it.
pub(crate) fn ttl_for(length: Duration, min_ttl: Duration) -> Duration {
    (length * RENEWALS).min(TTL).max(min_ttl)
}

/// Returns how long of this time is watched: a whole number of renewals of each lock, if there is time for one. Between
/// these, all locks that were acquired together are renewed together.
fn watched(length: Duration, ttl: Duration) -> Duration {
    let period = ttl / RENEWALS;
    match length.as_nanos() / period.as_nanos().max(1) {
        0 => length,
        periods => period * u32::try_from(periods).unwrap_or(u32::MAX),
    }
}

#[async_trait]
impl Measurement for Held {
    /// The rate is that of the renewals. A lost lock is an error.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let before = self.used_by_servers();
        let idle = self.process.watch(watched(length, self.holding.ttl)).await?;
        let servers = self.used_by_servers().zip(before).map(|(now, before)| now.saturating_sub(before));
        Ok(slice_of(self.holding, idle, servers))
    }

    async fn end(mut self: Box<Self>) -> Outcome<()> {
        self.process.order(Order::LetGo).await
    }
}

fn slice_of(holding: Holding, idle: Idle, servers: Option<Duration>) -> Slice {
    let Holding { locks, ttl, took, grown } = holding;
    let mut slice = Slice { rate: idle.renewals_per_s(), ..Slice::default() };
    slice.errors.extend((0..idle.losses).map(|_| "a lock was lost although it was renewed".to_owned()));
    let server_cpu = servers.filter(|_| idle.renewals > 0);
    let server_cpu = server_cpu.map(|used| used.as_secs_f64() / idle.renewals as f64 * 10_000.0);
    slice.extra = vec![
        ("ttl_ms", ttl.as_secs_f64() * 1e3),
        ("troubles", idle.troubles as f64),
        ("acquired_s", took.as_secs_f64()),
    ];
    slice.extra.extend(idle.share_of_a_core().map(|share| ("core_share", share)));
    slice.extra.extend(grown.map(|bytes| ("bytes_per_lock", bytes as f64 / locks as f64)));
    slice.extra.extend(server_cpu.map(|seconds| ("server_cpu_s_per_10000", seconds)));
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_is_renewed_as_often_as_the_others_while_it_is_watched() {
        let seconds = Duration::from_secs;
        assert_eq!(ttl_for(seconds(12), Duration::ZERO), TTL);
        assert_eq!(
            (ttl_for(seconds(2), Duration::ZERO), ttl_for(seconds(2), seconds(9))),
            (seconds(6), seconds(9))
        );
        assert_eq!([12, 20, 25].map(|length| watched(seconds(length), TTL)), [10, 20, 20].map(seconds));
        assert_eq!(watched(seconds(2), seconds(9)), seconds(2), "there is no time for a renewal of each");
    }

    #[test]
    fn figures_are_of_one_lock_of_ten_thousand_renewals_and_of_the_time() {
        let seconds = Duration::from_secs;
        let holding = Holding { locks: 100, ttl: seconds(3), took: seconds(2), grown: Some(150_000) };
        let (length, cpu) = (seconds(10), Some(Duration::from_millis(500)));
        let idle = Idle { length, cpu, renewals: 1_000, losses: 2, expired: 1, troubles: 4 };
        let slice = slice_of(holding, idle, Some(Duration::from_millis(30)));
        let expected = [
            ("ttl_ms", 3_000.0),
            ("troubles", 4.0),
            ("acquired_s", 2.0),
            ("core_share", 0.05),
            ("bytes_per_lock", 1_500.0),
            ("server_cpu_s_per_10000", 0.3),
        ];
        assert_eq!((slice.rate, slice.errors.len(), &slice.extra[..]), (100.0, 2, &expected[..]));
        let idle = Idle { cpu: None, renewals: 0, ..idle };
        let untold = slice_of(Holding { grown: None, ..holding }, idle, Some(seconds(1)));
        assert_eq!(untold.extra, expected[..3]);
    }
}
