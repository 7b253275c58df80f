//! `hold`: many locks held for a long time by one client. What does that cost while nothing happens?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use lock_core::{Event, LossReason, Owner, Random};
use onelock::{Client, Ending, Guard, Options};
use serde_json::json;

use crate::Outcome;
use crate::args::Hold;
use crate::usage::{cpu_time, grown_since, resident_bytes};

/// How many acquisitions and releases are on their way at once.
const AT_ONCE: usize = 64;
/// How long the client has to ask to be told of revokes, once it has all locks: it looks at each lock again then.
const SETTLE: Duration = Duration::from_secs(1);
/// The time limit of the client's shutdown.
const SHUTDOWN: Duration = Duration::from_secs(30);

pub(crate) async fn run(options: Hold) -> Outcome<()> {
    let holding = Holding::begin(&options.on, options.locks, options.ttl).await?;
    let (acquired, bytes) = (holding.acquired, holding.bytes);
    let idle = holding.watch(options.length).await;
    let Left { held, released, left } = holding.end().await;
    let report = Report { locks: options.locks, acquired, bytes, idle, held, released, left };
    report.print(options.json);
    report.verdict()
}

/// Locks that one client holds.
pub(crate) struct Holding {
    client: Client,
    guards: Vec<Guard>,
    seen: Arc<Seen>,
    /// How long it took to acquire them.
    pub(crate) acquired: Duration,
    /// By how much this process's memory has grown since.
    pub(crate) bytes: Option<u64>,
}

/// What was left of the locks at the end.
struct Left {
    held: usize,
    released: usize,
    /// How many claims the client could not end.
    left: usize,
}

impl Holding {
    /// Acquires this many locks, and returns when nothing is left to do but to renew them.
    pub(crate) async fn begin(url: &str, locks: usize, ttl: Duration) -> Outcome<Holding> {
        let seen = Arc::new(Seen::default());
        let observer = {
            let seen = seen.clone();
            move |event: &Event<'_>| seen.count(event)
        };
        let client = onelock::connect_with(url, Options::default().observer(observer)).await?;
        let before = resident_bytes();
        let began = Instant::now();
        let guards = acquire(&client, locks, ttl).await?;
        let acquired = began.elapsed();
        tokio::time::sleep(SETTLE).await;
        let bytes = grown_since(before);
        Ok(Holding { client, guards, seen, acquired, bytes })
    }

    /// Does nothing for so long.
    pub(crate) async fn watch(&self, length: Duration) -> Idle {
        Idle::watch(length, &self.seen).await
    }

    /// Releases the locks.
    pub(crate) async fn release(self) {
        self.end().await;
    }

    async fn end(self) -> Left {
        let held = self.guards.iter().filter(|guard| guard.is_held()).count();
        let released = release(self.guards).await;
        Left { held, released, left: self.client.shutdown(SHUTDOWN).await }
    }
}

async fn acquire(client: &Client, locks: usize, ttl: Duration) -> Outcome<Vec<Guard>> {
    let run = Owner::mint(&Random::system());
    let guards = stream::iter(0..locks).map(|n| async move {
        let lock = client.lock(format!("lock-bench:{run}:hold:{n}")).ttl(ttl).build()?;
        lock.acquire().await
    });
    Ok(guards.buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Releases the locks, and returns how many were held until then.
async fn release(guards: Vec<Guard>) -> usize {
    let endings = stream::iter(guards).map(Guard::release).buffer_unordered(AT_ONCE);
    endings.filter(|ending| std::future::ready(*ending == Ending::Released)).count().await
}

/// Counts of the client's events.
#[derive(Debug, Default)]
struct Seen {
    renewals: AtomicU64,
    /// Losses because no renewal came in time.
    expired: AtomicU64,
    other_losses: AtomicU64,
    troubles: AtomicU64,
}

impl Seen {
    fn count(&self, event: &Event<'_>) {
        let counter = match event {
            Event::Renewed { .. } => &self.renewals,
            Event::Lost { cause: LossReason::Expired, .. } => &self.expired,
            Event::Lost { .. } => &self.other_losses,
            Event::Trouble { .. } => &self.troubles,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }
}

/// The time in which the locks were only held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    pub(crate) length: Duration,
    /// The CPU time of this process, on all cores.
    pub(crate) cpu: Option<Duration>,
    pub(crate) renewals: u64,
    pub(crate) losses: u64,
    /// The losses because no renewal came in time.
    pub(crate) expired: u64,
    pub(crate) troubles: u64,
}

impl Idle {
    async fn watch(length: Duration, seen: &Seen) -> Idle {
        let (began, cpu, renewals) = (Instant::now(), cpu_time(), seen.renewals());
        tokio::time::sleep(length).await;
        let expired = seen.expired.load(Ordering::Relaxed);
        Idle {
            length: began.elapsed(),
            cpu: cpu_time().zip(cpu).map(|(now, before)| now.saturating_sub(before)),
            renewals: seen.renewals() - renewals,
            losses: expired + seen.other_losses.load(Ordering::Relaxed),
            expired,
            troubles: seen.troubles.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn share_of_a_core(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() / self.length.as_secs_f64())
    }

    pub(crate) fn renewals_per_s(&self) -> f64 {
        self.renewals as f64 / self.length.as_secs_f64()
    }
}

struct Report {
    locks: usize,
    acquired: Duration,
    bytes: Option<u64>,
    idle: Idle,
    held: usize,
    released: usize,
    left: usize,
}

impl Report {
    fn print(&self, json: bool) {
        let Report { locks, acquired, bytes, idle, held, released, left } = self;
        let bytes_each = bytes.map(|bytes| bytes / *locks as u64);
        let core = idle.share_of_a_core();
        let renewals_per_s = idle.renewals_per_s();
        if json {
            let row = json!({
                "workload": "hold", "locks": locks, "acquired_s": acquired.as_secs_f64(),
                "held_s": idle.length.as_secs_f64(), "core": core, "bytes_per_lock": bytes_each,
                "renewals_per_s": renewals_per_s, "losses": idle.losses, "expired": idle.expired,
                "troubles": idle.troubles, "held": held, "released": released, "left": left,
            });
            return println!("{row}");
        }
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        println!("{locks} locks, acquired in {acquired:.1?}, held for {:.1?}", idle.length);
        println!("cpu             {}", or_dash(core.map(|core| format!("{:.1} % of a core", core * 100.0))));
        println!("memory          {}", or_dash(bytes_each.map(|bytes| format!("{bytes} bytes a lock"))));
        println!("renewals        {renewals_per_s:.0}/s");
        println!("troubles        {}", idle.troubles);
        println!("losses          {}, {} of them expired", idle.losses, idle.expired);
        println!("held at the end {held}, released {released}, left on the server {left}");
    }

    fn verdict(&self) -> Outcome<()> {
        match self.idle.losses == 0 && self.held == self.locks && self.released == self.locks {
            true => Ok(()),
            false => Err("not every lock was held to the end".into()),
        }
    }
}
