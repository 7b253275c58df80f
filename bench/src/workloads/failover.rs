//! `failover`: one member of a cluster is killed (-9): the leader, if there is one. It measures how long it takes until
//! a lock is granted again, and what becomes of locks that are held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use onelock::{Client, Guard};

use crate::Outcome;
use crate::backend::Backend;
use crate::clusters::{Cluster, Killed};
use crate::rounds::Measurement;
use crate::subjects::TTL;
use crate::tally::Slice;

/// How long the holders hold their locks before the kill.
const SETTLE: Duration = Duration::from_millis(200);
/// Between two tries for a lock.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// How long a lock is tried for. Longer than any failover that is measured, and shorter than a slice may go on.
const LIMIT: Duration = Duration::from_secs(15);
/// The short lease, if the servers allow it: the fate of its lock is known soon.
const SHORT: Duration = Duration::from_secs(1);

/// A cluster, a client that tries for locks, and two that hold one each.
pub(crate) struct Failover {
    cluster: Arc<Cluster>,
    trying: Client,
    /// One lock with the default ttl, and one with the shortest.
    holders: [Holder; 2],
    name: String,
    /// How many members were killed.
    killed: u32,
}

/// A client with a session of its own.
struct Holder {
    client: Client,
    ttl: Duration,
}

/// What became of a lock that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The servers have renewed it since.
    Kept,
    /// Its holder was told that it is lost, so long after the kill.
    Told(Duration),
}

/// What was seen after a kill.
struct Seen {
    dead: Killed,
    /// After how long a lock was granted again, if one was.
    granted: Option<Duration>,
    /// Of the lock with the default ttl, and of the one with the shortest.
    fates: [Fate; 2],
}

impl Failover {
    /// Starts a cluster of this kind.
    pub(crate) async fn new(backend: Backend, name: String) -> Outcome<Failover> {
        let started = tokio::task::spawn_blocking(move || Cluster::start(backend)).await?;
        let cluster = started.map_err(|absence| absence.to_string())?;
        let url = cluster.url();
        let trying = onelock::connect(&url).await?;
        if backend == Backend::Redlock {
            trying.init().await?;
        }
        let shortest = trying.info().min_ttl.max(SHORT);
        let mut holders = Vec::new();
        for ttl in [TTL, shortest] {
            holders.push(Holder { client: onelock::connect(&url).await?, ttl });
        }
        let holders = holders.try_into().map_err(|_| "there are two holders")?;
        Ok(Failover { cluster: Arc::new(cluster), trying, holders, name, killed: 0 })
    }

    /// Kills a member, and returns what was seen then.
    async fn once(&mut self) -> Outcome<Seen> {
        self.killed += 1;
        let [default, short] = &self.holders;
        let held = [self.hold(default, "default").await?, self.hold(short, "short").await?];
        tokio::time::sleep(SETTLE).await;
        let (at, dead) = self.kill().await?;
        // A lock that is held for two leases from then on was renewed after it.
        let known = at + short.ttl * 2;
        let [default, short] = held.map(|(guard, ttl)| tokio::spawn(fate(guard, ttl, at, known)));
        let granted = self.granted_after(at).await?;
        Ok(Seen { dead, granted, fates: [default.await?, short.await?] })
    }

    async fn hold(&self, holder: &Holder, which: &str) -> Outcome<(Guard, Duration)> {
        let name = format!("{}:{which}:{}", self.name, self.killed);
        Ok((holder.client.lock(name).ttl(holder.ttl).build()?.acquire().await?, holder.ttl))
    }

    /// Kills the leader, and returns when it did so.
    async fn kill(&self) -> Outcome<(Instant, Killed)> {
        let cluster = self.cluster.clone();
        let killing = move || {
            let leader = cluster.leader()?;
            let at = Instant::now();
            Ok::<_, std::io::Error>((at, cluster.kill(leader)?))
        };
        Ok(tokio::task::spawn_blocking(killing).await??)
    }

    /// Tries until it is granted a lock, and returns how long after the kill that was; `None` if it never was.
    async fn granted_after(&self, killed: Instant) -> Outcome<Option<Duration>> {
        let mut tries = 0;
        while killed.elapsed() < LIMIT {
            // A try without an answer may have taken its name.
            let lock = self.trying.lock(format!("{}:try:{}:{tries}", self.name, self.killed)).build()?;
            match lock.try_acquire().await {
                Ok(Some(guard)) => {
                    let granted = killed.elapsed();
                    guard.release().await;
                    return Ok(Some(granted));
                }
                Err(error) if !error.is_transient() => return Err(error.into()),
                Ok(None) | Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
            }
            tries += 1;
        }
        Ok(None)
    }
}

/// Waits until the fate of a lock is known: its loss, or at `known` a renewal that succeeds.
async fn fate(guard: Guard, ttl: Duration, killed: Instant, known: Instant) -> Fate {
    if tokio::time::timeout_at(known.into(), guard.lost()).await.is_ok() {
        return Fate::Told(killed.elapsed());
    }
    loop {
        match guard.renew(ttl).await {
            Ok(_) => break,
            Err(_) if guard.is_held() => tokio::time::sleep(BETWEEN_TRIES).await,
            Err(_) => return Fate::Told(killed.elapsed()),
        }
    }
    guard.release().await;
    Fate::Kept
}

#[async_trait]
impl Measurement for Failover {
    /// Kills at least one member.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (began, mut slice, mut all) = (Instant::now(), Slice::default(), Vec::new());
        loop {
            let Seen { dead, granted, fates } = self.once().await?;
            all.push(fates);
            match granted {
                Some(granted) => slice.record(granted),
                None => slice.errors.push(format!("no lock was granted within {LIMIT:?} after the kill")),
            }
            if began.elapsed() >= length {
                break;
            }
            let cluster = self.cluster.clone();
            tokio::task::spawn_blocking(move || cluster.mend(dead)).await??;
        }
        slice.rate = slice.latencies.len() as f64 / began.elapsed().as_secs_f64();
        let [_, short] = &self.holders;
        slice.extra = figures(&all, short.ttl);
        Ok(slice)
    }
}

fn figures(fates: &[[Fate; 2]], short: Duration) -> Vec<(&'static str, f64)> {
    let kept = |which: usize| {
        let kept = fates.iter().filter(|both| both[which] == Fate::Kept).count();
        kept as f64 / fates.len().max(1) as f64
    };
    let told = |which: usize| {
        let told = fates.iter().filter_map(|both| match both[which] {
            Fate::Kept => None,
            Fate::Told(after) => Some(after.as_secs_f64() * 1e3),
        });
        told.max_by(f64::total_cmp)
    };
    let mut figures = vec![
        ("ttl_ms", TTL.as_secs_f64() * 1e3),
        ("kept", kept(0)),
        ("short_ttl_ms", short.as_secs_f64() * 1e3),
        ("short_kept", kept(1)),
    ];
    figures.extend(told(0).map(|latest| ("told_ms", latest)));
    figures.extend(told(1).map(|latest| ("short_told_ms", latest)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_has_the_time_of_the_latest_signal() {
        let told = |millis| Fate::Told(Duration::from_millis(millis));
        let fates = [
            [Fate::Kept, told(900)],
            [Fate::Kept, Fate::Kept],
            [Fate::Kept, told(950)],
            [Fate::Kept, told(20)],
        ];
        let figures = figures(&fates, Duration::from_secs(1));
        assert_eq!(
            figures,
            [
                ("ttl_ms", 30_000.0),
                ("kept", 1.0),
                ("short_ttl_ms", 1_000.0),
                ("short_kept", 0.25),
                ("short_told_ms", 950.0)
            ]
        );
    }

    #[tokio::test]
    async fn the_fate_of_a_lock_is_that_it_is_kept_or_lost() {
        let client = onelock::connect("memory://").await.unwrap();
        let ttl = Duration::from_secs(5);
        let lock = |name: &str| client.lock(name).ttl(ttl).build().unwrap();
        let now = Instant::now();
        let kept = lock("lock-bench:kept").acquire().await.unwrap();
        assert_eq!(fate(kept, ttl, now, now).await, Fate::Kept);
        let lost =
            client.lock("lock-bench:lost").ttl(ttl).max_hold(Duration::from_millis(50)).build().unwrap();
        let lost = lost.acquire().await.unwrap();
        assert!(matches!(fate(lost, ttl, now, now + ttl).await, Fate::Told(after) if after < ttl));
    }
}
