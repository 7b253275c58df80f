//! `loss`: the server dies while locks are held. It measures when the holders are told, against the deadline up to
//! which each lock was certain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_test_servers::Owned;
use onelock::{Client, Guard};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::tally::Slice;

/// How many locks are held, each renewed at another moment.
const HOLDERS: u32 = 16;

/// Holders of one client, and the servers that are killed.
pub(crate) struct Loss {
    client: Client,
    names: Vec<String>,
    ttl: Duration,
    servers: Arc<Vec<Owned>>,
}

impl Loss {
    pub(crate) async fn new(
        url: &str,
        name: impl Fn(usize) -> String,
        ttl: Duration,
        servers: Arc<Vec<Owned>>,
    ) -> Outcome<Loss> {
        let client = onelock::connect(url).await?;
        Ok(Loss { client, names: (0..HOLDERS as usize).map(name).collect(), ttl, servers })
    }

    async fn acquire(&self) -> Outcome<Vec<Guard>> {
        let mut guards = Vec::new();
        for name in &self.names {
            guards.push(self.client.lock(&**name).ttl(self.ttl).build()?.acquire().await?);
            // A lock is renewed after each third of its ttl.
            tokio::time::sleep(self.ttl / 3 / HOLDERS).await;
        }
        Ok(guards)
    }
}

/// When a holder was told that its lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    /// The lock was certain up to then.
    deadline: Instant,
    at: Instant,
}

impl Told {
    /// Returns how long after the deadline it was, in milliseconds; negative if it was before.
    fn after_deadline(self) -> f64 {
        let after = self.at.saturating_duration_since(self.deadline).as_secs_f64();
        let before = self.deadline.saturating_duration_since(self.at).as_secs_f64();
        (after - before) * 1e3
    }
}

#[async_trait]
impl Measurement for Loss {
    /// Kills the servers. They stay dead.
    async fn run(&mut self, _: Duration) -> Outcome<Slice> {
        let guards = self.acquire().await?;
        let servers = self.servers.clone();
        let killed = Instant::now();
        tokio::task::spawn_blocking(move || servers.iter().try_for_each(Owned::kill)).await??;
        let mut holders = JoinSet::new();
        for guard in guards {
            // No renewal can take_over any more.
            let deadline = Instant::now() + guard.valid_for();
            holders.spawn(async move {
                guard.lost().await;
                Told { deadline, at: Instant::now() }
            });
        }
        let mut slice = Slice::default();
        let mut all = Vec::new();
        while let Some(told) = holders.join_next().await {
            let told = told?;
            slice.record(told.at.saturating_duration_since(killed));
            all.push(told.after_deadline());
        }
        slice.rate = all.len() as f64 / killed.elapsed().as_secs_f64();
        slice.extra = figures(&all, self.ttl);
        Ok(slice)
    }
}

fn figures(after_deadline: &[f64], ttl: Duration) -> Vec<(&'static str, f64)> {
    let latest = after_deadline.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let earliest = after_deadline.iter().copied().fold(f64::INFINITY, f64::min);
    vec![
        ("ttl_ms", ttl.as_secs_f64() * 1e3),
        ("latest_after_deadline_ms", latest),
        ("earliest_after_deadline_ms", earliest),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_before_the_deadline_is_negative() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let told = |at| Told { deadline, at }.after_deadline();
        assert_eq!(told(deadline + Duration::from_millis(30)), 30.0);
        assert_eq!(told(deadline - Duration::from_millis(250)), -250.0);
        let figures = figures(&[-5.0, 30.0, 2.0], Duration::from_secs(1));
        assert_eq!(figures[1..], [("latest_after_deadline_ms", 30.0), ("earliest_after_deadline_ms", -5.0)]);
    }
}
