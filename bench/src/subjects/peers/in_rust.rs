//! The locks of crates, which this program links.

use std::sync::Arc;

use async_trait::async_trait;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};
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
use crate::subjects::{Side, Subject, TTL, Worker};

/// Connects the peer of this name.
pub(super) async fn connect(name: &str, url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match name {
        "rslock" => {
            // It connects at its first lock.
            let client = Server::at(url)?.client(ProtocolVersion::RESP2)?;
            Box::new(Rslock(LockManager::from_clients(vec![client])))
        }
        "distributed-lock-redis" => {
            let url = Location::parse(url)?.base().to_owned();
            Box::new(DistributedLockRedis(RedisLockProvider::builder().url(url).expiry(TTL).build().await?))
        }
        "etcd-lock-rpc" => {
            let client = raw::etcd::connect(url).await?;
            let lease = Arc::new(Lease::grant(&client).await?);
            Box::new(EtcdLockRpc { service: client.lock_client(), lease })
        }
        "pg-advisory-lock" => {
            // The pool's own test of a connection would add a round trip to each cycle.
            let options = PgPoolOptions::new().test_before_acquire(false);
            let options = options.max_connections(u32::try_from(raw::connections_of(url)?)?);
            Box::new(AdvisoryLock(options.connect_with(raw::postgres::options(url)?).await?))
        }
        "zookeeper-client" => Box::new(ZooKeeperClient(raw::zookeeper::connect(url).await?)),
        name => return Err(format!("{name} is driven by a process of its own").into()),
    })
}

/// Redlock, here on one server, with its defaults.
struct Rslock(LockManager);

#[async_trait]
impl Subject for Rslock {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(RslockSide { manager: self.0.clone(), name: name.to_owned(), guard: None }))
    }
}

struct RslockSide {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

#[async_trait]
impl Side for RslockSide {
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
struct DistributedLockRedis(RedisLockProvider);

#[async_trait]
impl Subject for DistributedLockRedis {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(DistributedLockWorker(self.0.create_lock(name))))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("distributed-lock-redis does not wait on one server, and takes no part in a hand-over".into())
    }
}

struct DistributedLockWorker(RedisDistributedLock);

#[async_trait]
impl Worker for DistributedLockWorker {
    async fn cycle(&mut self) -> Outcome<()> {
        Ok(self.0.acquire(None).await?.release().await?)
    }
}

/// etcd's own lock service: the server waits in place of the client.
struct EtcdLockRpc {
    service: LockClient,
    lease: Arc<Lease>,
}

#[async_trait]
impl Subject for EtcdLockRpc {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let (service, lease) = (self.service.clone(), self.lease.clone());
        Ok(Box::new(EtcdSide { service, lease, name: name.to_owned(), key: None }))
    }
}

/// One name under the lease that all names of the connection share.
struct EtcdSide {
    service: LockClient,
    lease: Arc<Lease>,
    name: String,
    /// The key on the server while the lock is held.
    key: Option<Vec<u8>>,
}

#[async_trait]
impl Side for EtcdSide {
    async fn acquire(&mut self) -> Outcome<()> {
        let options = LockOptions::new().with_lease(self.lease.id());
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
struct AdvisoryLock(PgPool);

#[async_trait]
impl Subject for AdvisoryLock {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(AdvisorySide { pool: self.0.clone(), lock: PgAdvisoryLock::new(name), guard: None }))
    }
}

struct AdvisorySide {
    pool: PgPool,
    lock: PgAdvisoryLock,
    /// The lock and the connection that it occupies.
    guard: Option<PgAdvisoryLockGuard<PoolConnection<Postgres>>>,
}

#[async_trait]
impl Side for AdvisorySide {
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

/// With the nodes that Curator makes.
struct ZooKeeperClient(Client);

/// Not the library's folder: the two would count each other's nodes.
const FOLDER: &str = "/lock-bench-peers";

#[async_trait]
impl Subject for ZooKeeperClient {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(ZooKeeperSide {
            client: self.0.clone(),
            directory: format!("{FOLDER}/{name}"),
            held: None,
        }))
    }
}

struct ZooKeeperSide {
    client: Client,
    directory: String,
    held: Option<OwnedLockClient>,
}

#[async_trait]
impl Side for ZooKeeperSide {
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
