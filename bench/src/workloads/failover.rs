//! `failover`: one member of a cluster is killed (-9): the leader, if there is one. It measures how long it takes until
//! a lock is granted again, and whether a lock that is held is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use onelock::{Client, Guard};

use crate::Outcome;
use crate::backend::Backend;
use crate::clusters::Cluster;
use crate::rounds::Measurement;
use crate::subjects::TTL;
use crate::tally::Slice;

/// The holder holds its lock for so long before the kill.
const SETTLE: Duration = Duration::from_millis(200);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// A client tries for a lock for so long: longer than any failover that is measured, and shorter than a slice may go on.
const LIMIT: Duration = Duration::from_secs(15);

/// A cluster, a client that tries for locks, and one that holds a lock.
pub(crate) struct Failover {
    cluster: Arc<Cluster>,
    trying: Client,
    holding: Client,
    name: String,
    killed: u32,
}

impl Failover {
    pub(crate) async fn new(backend: Backend, name: String) -> Outcome<Failover> {
        let started = tokio::task::spawn_blocking(move || Cluster::start(backend)).await?;
        let cluster = started.map_err(|absence| absence.to_string())?;
        let url = cluster.url();
        let trying = onelock::connect(&url).await?;
        if backend == Backend::Redlock {
            trying.init().await?;
        }
        let holding = onelock::connect(&url).await?;
        Ok(Failover { cluster: Arc::new(cluster), trying, holding, name, killed: 0 })
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

/// Returns whether the servers still renew a lock.
async fn is_kept(guard: Guard) -> bool {
    while guard.is_held() {
        if guard.renew(TTL).await.is_ok() {
            guard.release().await;
            return true;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    false
}

#[async_trait]
impl Measurement for Failover {
    /// Kills at least one member.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (began, mut slice, mut kept) = (Instant::now(), Slice::default(), Vec::new());
        loop {
            let held = self.holding.lock(format!("{}:held:{}", self.name, self.killed)).ttl(TTL).build()?;
            let guard = held.acquire().await?;
            tokio::time::sleep(SETTLE).await;
            self.killed += 1;
            let cluster = self.cluster.clone();
            let (dead, at) = tokio::task::spawn_blocking(move || cluster.kill_leader()).await??;
            match self.granted_after(at).await? {
                Some(granted) => slice.record(granted),
                None => slice.errors.push(format!("no lock was granted within {LIMIT:?} after the kill")),
            }
            kept.push(f64::from(u8::from(is_kept(guard).await)));
            if began.elapsed() >= length {
                break;
            }
            let cluster = self.cluster.clone();
            tokio::task::spawn_blocking(move || cluster.mend(dead)).await??;
        }
        slice.rate = slice.latencies.len() as f64 / began.elapsed().as_secs_f64();
        slice.extra = vec![("kept", kept.iter().sum::<f64>() / kept.len() as f64)];
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_kept_or_lost() {
        let client = onelock::connect("memory://").await.unwrap();
        let lock = |name: &str| client.lock(name).ttl(Duration::from_secs(5));
        assert!(is_kept(lock("lock-bench:kept").build().unwrap().acquire().await.unwrap()).await);
        let lost = lock("lock-bench:lost").max_hold(Duration::from_millis(50)).build().unwrap();
        let lost = lost.acquire().await.unwrap();
        lost.lost().await;
        assert!(!is_kept(lost).await);
    }
}
