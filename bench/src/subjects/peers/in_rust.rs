//! The locks of crates, which this program links.

use std::sync::Arc;

use async_trait::async_trait;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockHandle, RedisLockProvider};
use etcd_client::{LockClient, LockOptions};
use lock_core::toolkit::Location;
use redis::ProtocolVersion;
use rslock::{LockGuard, LockManager};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgAdvisoryLock, PgAdvisoryLockGuard, PgPool, PgPoolOptions};
use zookeeper_client::{Acls, Client, CreateMode, LockPrefix, OwnedLockClient};

use crate::Outcome;
use crate::raw::redis::Server;
use crate::raw::{self, etcd::Lease};
use crate::subjects::{Side, Subject, TTL, each};

pub(super) async fn connect(name: &str, url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match name {
        "rslock" => {
            // It connects at its first lock.
            let manager = LockManager::from_clients(vec![Server::at(url)?.client(ProtocolVersion::RESP2)?]);
            each(move |name| Ok(Rslock { manager: manager.clone(), name: name.to_owned(), guard: None }))
        }
        "distributed-lock-redis" => {
            let url = Location::parse(url)?.base().to_owned();
            let provider = RedisLockProvider::builder().url(url).expiry(TTL).build().await?;
            each(move |name| Ok(DistributedLockRedis { lock: provider.create_lock(name), held: None }))
        }
        "etcd-lock-rpc" => {
            let client = raw::etcd::connect(url).await?;
            let (service, lease) = (client.lock_client(), Arc::new(Lease::grant(&client).await?));
            each(move |name| {
                let (service, lease) = (service.clone(), lease.clone());
                Ok(EtcdLockRpc { service, lease, name: name.to_owned(), key: None })
            })
        }
        "pg-advisory-lock" => {
            // The pool's own test of a connection would add a round trip to each cycle.
            let options = PgPoolOptions::new().test_before_acquire(false);
            let options = options.max_connections(u32::try_from(raw::sql::connections(url)?)?);
            let pool = options.connect_with(raw::sql::postgres(url)?).await?;
            each(move |name| {
                Ok(AdvisoryLock { pool: pool.clone(), lock: PgAdvisoryLock::new(name), guard: None })
            })
        }
        "zookeeper-client" => {
            let client = raw::zookeeper::connect(url).await?;
            each(move |name| {
                let directory = format!("{FOLDER}/{name}");
                Ok(ZooKeeperClient { client: client.clone(), directory, held: None })
            })
        }
        name => return Err(format!("{name} is driven by a process of its own").into()),
    })
}

/// Redlock, here on one server, with its defaults.
struct Rslock {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

#[async_trait]
impl Side for Rslock {
    async fn acquire(&mut self) -> Outcome<()> {
        self.guard = Some(self.manager.acquire(self.name.as_str(), TTL).await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        if let Some(guard) = self.guard.take() {
            guard.release().await;
        }
        Ok(())
    }
}

/// On one server its `acquire` does not wait.
struct DistributedLockRedis {
    lock: RedisDistributedLock,
    held: Option<RedisLockHandle>,
}

#[async_trait]
impl Side for DistributedLockRedis {
    async fn acquire(&mut self) -> Outcome<()> {
        self.held = Some(self.lock.acquire(None).await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.held.take() {
            Some(held) => Ok(held.release().await?),
            None => Ok(()),
        }
    }
}

/// etcd's own lock service: the server waits in place of the client.
struct EtcdLockRpc {
    service: LockClient,
    /// All names of the connection share it.
    lease: Arc<Lease>,
    name: String,
    /// The key on the server while the lock is held.
    key: Option<Vec<u8>>,
}

#[async_trait]
impl Side for EtcdLockRpc {
    async fn acquire(&mut self) -> Outcome<()> {
        let options = LockOptions::new().with_lease(self.lease.id);
        let granted = self.service.lock(self.name.as_str(), Some(options)).await?;
        self.key = Some(granted.key().to_vec());
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        if let Some(key) = self.key.take() {
            self.service.unlock(key).await?;
        }
        Ok(())
    }
}

/// PostgreSQL's advisory locks, on a pool with as many connections as the library has.
struct AdvisoryLock {
    pool: PgPool,
    lock: PgAdvisoryLock,
    /// The lock and the connection that it occupies.
    guard: Option<PgAdvisoryLockGuard<PoolConnection<Postgres>>>,
}

#[async_trait]
impl Side for AdvisoryLock {
    async fn acquire(&mut self) -> Outcome<()> {
        let connection = self.pool.acquire().await?;
        self.guard = Some(self.lock.acquire(connection).await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        if let Some(guard) = self.guard.take() {
            guard.release_now().await?;
        }
        Ok(())
    }
}

/// Not the library's folder: the two would count each other's nodes.
const FOLDER: &str = "/lock-bench-peers";

/// With the nodes that Curator makes.
struct ZooKeeperClient {
    client: Client,
    directory: String,
    held: Option<OwnedLockClient>,
}

#[async_trait]
impl Side for ZooKeeperClient {
    async fn acquire(&mut self) -> Outcome<()> {
        let everyone = Acls::anyone_all();
        // The server removes the folders when they have been empty for a while.
        let folders = CreateMode::Container.with_acls(everyone);
        let options = zookeeper_client::LockOptions::new(everyone).with_ancestor_options(folders)?;
        let prefix = LockPrefix::new_curator(&self.directory, "lock-")?;
        self.held = Some(self.client.lock(prefix, b"", options).await?.into_owned());
        Ok(())
    }

    /// Drops the lock, as users of the crate do: the request is sent, and its answer is not waited for.
    async fn release(&mut self) -> Outcome<()> {
        self.held = None;
        Ok(())
    }
}
