//! Scenes about waiters.

use std::time::{Duration, Instant};

use lock_conformance::claims::claim;
use lock_core::driver::{Attempt, Queueing, Wakes};

use super::{Figures, TTL, figures, flag, millis, name, open, release, terms};
use crate::Outcome;
use crate::claims::play::harness::Tried;

/// A waiter begins its wait within this time.
const SETTLE: Duration = Duration::from_millis(200);

/// A waiter waits for a release. `pushed` is whether the server tells it.
pub(super) async fn told(tried: &Tried) -> Outcome<Figures> {
    let (name, holder, waiter) = (name(), open(tried).await?, open(tried).await?);
    let pushed = waiter.info().wakes == Wakes::Pushed;
    let guard = holder.lock(name.as_str()).build()?.acquire().await?;
    let lock = waiter.lock(name.as_str()).build()?;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(SETTLE).await;
    let asked = Instant::now();
    release(guard).await?;
    let guard = waiting.await??;
    let waited = asked.elapsed();
    release(guard).await?;
    Ok(figures([("pushed", flag(pushed)), ("granted_after_ms", millis(waited))]))
}

/// The first live waiter waits behind one dead waiter, and behind two.
pub(super) async fn dead_waiters(tried: &Tried) -> Outcome<Figures> {
    let (one, two) = tokio::try_join!(behind(tried, 1), behind(tried, 2))?;
    Ok(figures([("one_dead_s", one.as_secs_f64()), ("two_dead_s", two.as_secs_f64())]))
}

async fn behind(tried: &Tried, dead: usize) -> Outcome<Duration> {
    let (name, holder, survivor) = (name(), open(tried).await?, open(tried).await?);
    let guard = holder.lock(name.as_str()).ttl(TTL).build()?.acquire().await?;
    let mut clients = Vec::new();
    for _ in 0..dead {
        let client = open(tried).await?;
        // It takes its place, if there is a queue, and does nothing more.
        let attempt = claim(&client, &name, terms(Queueing::Queued)).attempt().await?;
        if let Attempt::Granted(_) = attempt {
            return Err("a waiter was granted a lock that is held".into());
        }
        clients.push(client);
    }
    let lock = survivor.lock(name.as_str()).ttl(TTL).build()?;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(SETTLE).await;
    let asked = Instant::now();
    release(guard).await?;
    let guard = waiting.await??;
    let waited = asked.elapsed();
    release(guard).await?;
    drop(clients);
    Ok(waited)
}

/// A useless majority is released so soon.
const EARLY: Duration = Duration::from_millis(100);

/// The next client waits behind a useless majority: it was reached too late, say. On the servers it is a grant like any
/// other.
pub(super) async fn early_release(tried: &Tried) -> Outcome<Figures> {
    let (early, never) = tokio::try_join!(next_waits(tried, Some(EARLY)), next_waits(tried, None))?;
    Ok(figures([("waited_ms_if_released", millis(early)), ("waited_ms_if_not", millis(never))]))
}

async fn next_waits(tried: &Tried, released_after: Option<Duration>) -> Outcome<Duration> {
    let (name, one, next) = (name(), open(tried).await?, open(tried).await?);
    let mut useless = claim(&one, &name, terms(Queueing::No));
    if let Attempt::Busy(_) = useless.attempt().await? {
        return Err("a name that no other client has is held".into());
    }
    let asked = Instant::now();
    let lock = next.lock(name.as_str()).ttl(TTL).build()?;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    if let Some(after) = released_after {
        tokio::time::sleep(after).await;
        useless.release().await?;
    }
    let guard = waiting.await??;
    let waited = asked.elapsed();
    release(guard).await?;
    Ok(waited)
}
