//! `held`: a client holds many locks and does nothing else. It measures the cost of them and of their renewals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use lock_core::Event;
use onelock::{Client, Guard, Options};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::clock::cpu_time;
use crate::rounds::Measurement;
use crate::subjects::{Kind, TTL};
use crate::tally::Slice;
use crate::workloads::messages::{Order, Reply};
use crate::workloads::other_process::{OtherProcess, unexpected};

/// Locks that one client of another process holds: what other measurements have left in this process's memory does not
/// count.
pub(crate) struct Held {
    process: OtherProcess,
    ttl: Duration,
}

impl Held {
    pub(crate) async fn new(url: &str, name: &str, locks: usize, ttl: Duration) -> Outcome<Held> {
        let mut process = OtherProcess::start(Kind::Ours, url, name).await?;
        process.tell(Order::Hold { locks, ttl }).await?;
        process.ready().await?;
        Ok(Held { process, ttl })
    }
}

/// Locks that one client of this process holds.
pub(super) struct Holding {
    client: Client,
    guards: Vec<Guard>,
    renewals: Arc<AtomicU64>,
    ttl: Duration,
    /// The memory of this process before.
    before: Option<u64>,
}

/// So many acquisitions and releases are on their way at once.
const AT_ONCE: usize = 64;
/// The client asks within this time to be told of revokes, once it has all locks: it looks at each lock again then.
const SETTLE: Duration = Duration::from_secs(1);
const SHUTDOWN: Duration = Duration::from_secs(30);

impl Holding {
    /// Acquires this many locks, whose names begin with this one.
    pub(super) async fn begin(url: &str, name: &str, locks: usize, ttl: Duration) -> Outcome<Holding> {
        let renewals = Arc::new(AtomicU64::new(0));
        let seen = renewals.clone();
        let observer = move |event: &Event<'_>| {
            seen.fetch_add(u64::from(matches!(event, Event::Renewed { .. })), Ordering::Relaxed);
        };
        let client = onelock::connect_with(url, Options::default().observer(observer)).await?;
        let before = resident_bytes();
        let guards = stream::iter(0..locks).map(|n| {
            let lock = client.lock(nth_name(name, n)).ttl(ttl).build();
            async move { lock?.acquire().await }
        });
        let guards: Vec<Guard> = guards.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(Holding { client, guards, renewals, ttl, before })
    }

    /// Does nothing for so long, once nothing is left to do but to renew them.
    pub(super) async fn watch(&self, length: Duration) -> Idle {
        tokio::time::sleep(SETTLE).await;
        let bytes = resident_bytes().zip(self.before).map(|(now, before)| now.saturating_sub(before));
        let (began, cpu, renewals) = (Instant::now(), cpu_time(), self.renewals.load(Ordering::Relaxed));
        tokio::time::sleep(length).await;
        Idle {
            locks: self.guards.len(),
            ttl: self.ttl,
            bytes,
            length: began.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
            renewals: self.renewals.load(Ordering::Relaxed) - renewals,
            losses: self.guards.iter().filter(|guard| !guard.is_held()).count(),
        }
    }

    pub(super) async fn release(self) {
        let releases = stream::iter(self.guards).map(Guard::release).buffer_unordered(AT_ONCE);
        releases.for_each(|_| std::future::ready(())).await;
        self.client.shutdown(SHUTDOWN).await;
    }
}

/// Returns the name of the nth lock.
pub(super) fn nth_name(name: &str, n: usize) -> String {
    format!("{name}:{n}")
}

/// The time in which the locks were only held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Idle {
    locks: usize,
    ttl: Duration,
    /// The growth of the process's memory for the locks.
    bytes: Option<u64>,
    length: Duration,
    cpu: Duration,
    renewals: u64,
    losses: usize,
}

/// A lock is renewed after each third of its ttl.
const RENEWALS: u32 = 3;

/// Returns the ttl with which each lock is renewed at least once while it is watched for this long: the default one, if
/// there is time for it.
pub(crate) fn ttl_for(length: Duration, min_ttl: Duration) -> Duration {
    (length * RENEWALS).min(TTL).max(min_ttl)
}

/// Returns the part of this time that is watched: a whole number of renewals of each lock, if there is time for one.
/// Between these, all locks that were acquired together are renewed together.
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
        self.process.tell(Order::Watch(watched(length, self.ttl))).await?;
        match self.process.reply().await? {
            Reply::Watched(idle) => Ok(slice_of(idle)),
            reply => Err(unexpected(&reply)),
        }
    }

    async fn end(mut self: Box<Self>) -> Outcome<()> {
        self.process.release().await.map(drop)
    }
}

fn slice_of(idle: Idle) -> Slice {
    let mut slice = Slice { rate: idle.renewals as f64 / idle.length.as_secs_f64(), ..Slice::default() };
    slice.errors.extend((0..idle.losses).map(|_| "a lock was lost although it was renewed".to_owned()));
    slice.extra = vec![
        ("ttl_ms", idle.ttl.as_secs_f64() * 1e3),
        ("core_share", idle.cpu.as_secs_f64() / idle.length.as_secs_f64()),
    ];
    slice.extra.extend(idle.bytes.map(|bytes| ("bytes_per_lock", bytes as f64 / idle.locks as f64)));
    slice
}

/// Returns this process's resident memory; none on a system where this program can't read it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_locks_are_renewed_equally_often_while_watched() {
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
    fn figures_are_of_one_lock_and_of_the_time() {
        let seconds = Duration::from_secs;
        let (length, cpu, bytes) = (seconds(10), Duration::from_millis(500), Some(150_000));
        let idle = Idle { locks: 100, ttl: seconds(3), bytes, length, cpu, renewals: 1_000, losses: 2 };
        let slice = slice_of(idle);
        let expected = [("ttl_ms", 3_000.0), ("core_share", 0.05), ("bytes_per_lock", 1_500.0)];
        assert_eq!((slice.rate, slice.errors.len(), &slice.extra[..]), (100.0, 2, &expected[..]));
        assert_eq!(slice_of(Idle { bytes: None, ..idle }).extra, expected[..2]);
    }
}
