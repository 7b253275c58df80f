//! The raw drivers with the least that is still a lock with a ttl and a token: one request takes it, one releases it, and
//! a release wakes the next one where the server can push. They make as many requests as the library does, which is
//! checked by the servers' own counts before they are measured.

mod connections;
mod etcd;
mod mongo;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod zookeeper;

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Owner, Random};

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::Counter;
use crate::subjects::{Kind, Side, Subject, Worker};

/// The table, the collection or the folder in which it locks.
const PLACE: &str = "lock_bench_baseline";

/// Connects to the server at `url`.
pub(super) async fn connect(url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match Backend::of(url)? {
        Backend::Redis | Backend::Redlock => Box::new(redis::Baseline::connect(url).await?),
        Backend::Sqlite => Box::new(sqlite::Baseline::connect(url).await?),
        Backend::Postgres => Box::new(postgres::Baseline::connect(url).await?),
        Backend::MySql => Box::new(mysql::Baseline::connect(url).await?),
        Backend::Mongo => Box::new(mongo::Baseline::connect(url).await?),
        Backend::Etcd => Box::new(etcd::Baseline::connect(url).await?),
        Backend::ZooKeeper => Box::new(zookeeper::Baseline::connect(url).await?),
        Backend::Memory => return Err("memory has no driver, and no baseline".into()),
    })
}

/// How many cycles are counted. What clients send besides is less than a request for each.
const COUNTED: u64 = 40;

/// Checks that a cycle costs the server as many requests as one of the library, where the server counts them.
///
/// # Errors
///
/// If it does not: its figures could not be compared with the library's.
pub(crate) async fn check_requests(backend: Backend, url: &str, name: &str) -> Outcome<()> {
    let Ok(mut counter) = Counter::of(backend, url).await else { return Ok(()) };
    let mut counts = Vec::new();
    for kind in [Kind::Ours, Kind::Baseline] {
        let subject = kind.connect(url).await?;
        let mut worker = subject.worker(&format!("{name}:{}", kind.as_str())).await?;
        // A first cycle may prepare statements.
        worker.cycle().await?;
        let before = counter.read().await?;
        for _ in 0..COUNTED {
            worker.cycle().await?;
        }
        let requests = counter.read().await?.saturating_sub(before);
        counts.push((requests as f64 / COUNTED as f64).round());
    }
    counter.end().await?;
    match counts[..] {
        [ours, own] if ours == own => Ok(()),
        _ => Err(format!("a cycle of the library and one of the baseline make {counts:?} requests").into()),
    }
}

/// What a raw driver does with one name.
#[async_trait]
trait Calls: Send + Sync + 'static {
    /// The state of one acquisition until its release.
    type Claim: Send;

    fn claim(&self, owner: Owner) -> Self::Claim;

    /// Attempts to take the lock, and returns whether it was granted.
    async fn take(&self, claim: &mut Self::Claim) -> Outcome<bool>;

    /// Marks that a client waits, where a release notifies only waiters that have done so.
    async fn mark(&self) -> Outcome<()> {
        Ok(())
    }

    /// Releases the lock, and returns whether it was held.
    async fn release(&self, claim: &mut Self::Claim) -> Outcome<bool>;
}

/// Notifications of releases.
#[async_trait]
trait Pushes: Send {
    /// Waits for the next release of the name.
    async fn next(&mut self) -> Outcome<()>;
}

/// What a task or a process does with one name.
struct Holder<C: Calls> {
    calls: Arc<C>,
    /// Subscribed before the first look, so that no release is missed; none in a worker.
    pushes: Option<Box<dyn Pushes>>,
    holds: Option<C::Claim>,
    random: Random,
}

fn worker<C: Calls>(calls: C) -> Box<dyn Worker> {
    Box::new(Holder { calls: Arc::new(calls), pushes: None, holds: None, random: Random::system() })
}

fn side<C: Calls>(calls: Arc<C>, pushes: Box<dyn Pushes>) -> Box<dyn Side> {
    Box::new(Holder { calls, pushes: Some(pushes), holds: None, random: Random::system() })
}

async fn release<C: Calls>(calls: &C, mut claim: C::Claim) -> Outcome<()> {
    match calls.release(&mut claim).await? {
        true => Ok(()),
        false => Err("the baseline's lock was not held until its release".into()),
    }
}

#[async_trait]
impl<C: Calls> Worker for Holder<C> {
    /// Runs in a task of its own, as every acquisition of the library does.
    async fn cycle(&mut self) -> Outcome<()> {
        let (calls, owner) = (self.calls.clone(), Owner::mint(&self.random));
        let cycle = tokio::spawn(async move {
            let mut claim = calls.claim(owner);
            match calls.take(&mut claim).await? {
                true => release(&*calls, claim).await,
                false => Err("another client holds the baseline's lock".into()),
            }
        });
        cycle.await?
    }
}

#[async_trait]
impl<C: Calls> Side for Holder<C> {
    async fn acquire(&mut self) -> Outcome<()> {
        let mut claim = self.calls.claim(Owner::mint(&self.random));
        let pushes = self.pushes.as_mut().ok_or("a worker does not wait")?;
        if !self.calls.take(&mut claim).await? {
            self.calls.mark().await?;
            while !self.calls.take(&mut claim).await? {
                pushes.next().await?;
            }
        }
        self.holds = Some(claim);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.holds.take() {
            Some(claim) => release(&*self.calls, claim).await,
            None => Ok(()),
        }
    }
}
