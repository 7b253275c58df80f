//! The raw drivers with the least that is still a lock with a ttl and a token: one request takes it, one releases it, and
//! a release wakes the next one where the server can push. They make as many requests as the library does, which is
//! checked by the servers' own counts before they are measured.

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
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::Outcome;
use crate::backend::Backend;
use crate::counter::Counter;
use crate::subjects::{Kind, Side, Subject};

/// The table, the collection or the folder in which it locks.
const PLACE: &str = "lock_bench_baseline";

pub(super) async fn connect(url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match Backend::of(url)? {
        Backend::Redis | Backend::Redlock => Box::new(Baseline(redis::Servers::connect(url).await?)),
        Backend::Sqlite => Box::new(Baseline(sqlite::File::connect(url).await?)),
        Backend::Postgres => Box::new(Baseline(postgres::Server::connect(url).await?)),
        Backend::MySql => Box::new(Baseline(mysql::Server::connect(url).await?)),
        Backend::Mongo => Box::new(Baseline(mongo::Server::connect(url).await?)),
        Backend::Etcd => Box::new(Baseline(etcd::Server::connect(url).await?)),
        Backend::ZooKeeper => Box::new(Baseline(zookeeper::Server::connect(url).await?)),
        Backend::Memory => return Err("memory has no driver, and no baseline".into()),
    })
}

/// So many cycles are counted. Whatever clients send besides is less than a request for each.
const COUNTED: u64 = 40;

/// Checks that a cycle costs the server as many requests as one of the library, where the server counts them: its
/// figures could not be compared otherwise.
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

#[async_trait]
trait Driver: Send + Sync {
    type Calls: Calls;

    async fn named(&self, name: &str) -> Outcome<Self::Calls>;
}

/// The calls of a raw driver for one name. One client at a time makes them.
#[async_trait]
trait Calls: Send + 'static {
    /// Subscribes to the releases of the name.
    async fn subscribe(&mut self) -> Outcome<()> {
        Err("the raw driver has nothing that another process could wait for".into())
    }

    /// Attempts to take the lock, and returns whether it was granted.
    async fn take(&mut self, owner: &Owner) -> Outcome<bool>;

    /// Marks that a client waits, where a release notifies only waiters that have done so.
    async fn mark(&mut self) -> Outcome<()> {
        Ok(())
    }

    async fn released(&mut self) -> Outcome<()> {
        Err(NOT_SUBSCRIBED.into())
    }

    /// Releases the lock, and returns whether it was held.
    async fn release(&mut self, owner: &Owner) -> Outcome<bool>;
}

const NOT_SUBSCRIBED: &str = "this client is not subscribed";

struct Baseline<D>(D);

#[async_trait]
impl<D: Driver> Subject for Baseline<D> {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Holder::new(self.0.named(name).await?)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let mut calls = self.0.named(name).await?;
        // Before the first look, so that no release is missed.
        calls.subscribe().await?;
        Ok(Box::new(Holder::new(calls)))
    }
}

struct Holder<C> {
    calls: Arc<Mutex<C>>,
    holds: Option<Owner>,
    random: Random,
}

impl<C: Calls> Holder<C> {
    fn new(calls: C) -> Holder<C> {
        Holder { calls: Arc::new(Mutex::new(calls)), holds: None, random: Random::system() }
    }
}

async fn release<C: Calls>(calls: &mut C, owner: &Owner) -> Outcome<()> {
    match calls.release(owner).await? {
        true => Ok(()),
        false => Err("the baseline's lock was not held until its release".into()),
    }
}

#[async_trait]
impl<C: Calls> Side for Holder<C> {
    /// Runs in a task of its own, as every acquisition of the library does.
    async fn cycle(&mut self) -> Outcome<()> {
        let (calls, owner) = (self.calls.clone(), Owner::mint(&self.random));
        let cycle = tokio::spawn(async move {
            let calls = &mut *calls.lock().await;
            match calls.take(&owner).await? {
                true => release(calls, &owner).await,
                false => Err("another client holds the baseline's lock".into()),
            }
        });
        cycle.await?
    }

    async fn acquire(&mut self) -> Outcome<()> {
        let (mut calls, owner) = (self.calls.lock().await, Owner::mint(&self.random));
        if !calls.take(&owner).await? {
            calls.mark().await?;
            while !calls.take(&owner).await? {
                calls.released().await?;
            }
        }
        self.holds = Some(owner);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.holds.take() {
            Some(owner) => release(&mut *self.calls.lock().await, &owner).await,
            None => Ok(()),
        }
    }
}

/// As many connections as the library opens, each used by one statement at a time.
struct Connections<C> {
    all: Vec<Mutex<C>>,
    free: Semaphore,
}

impl<C> Connections<C> {
    fn new(all: Vec<C>) -> Connections<C> {
        Connections { free: Semaphore::new(all.len()), all: all.into_iter().map(Mutex::new).collect() }
    }

    /// Waits for a connection. It is given back before its permit, which the next one then finds.
    async fn borrow(&self) -> (MutexGuard<'_, C>, SemaphorePermit<'_>) {
        let permit = self.free.acquire().await.expect("the semaphore is never closed");
        let free = self.all.iter().find_map(|connection| connection.try_lock().ok());
        (free.expect("there are as many permits as connections"), permit)
    }
}
