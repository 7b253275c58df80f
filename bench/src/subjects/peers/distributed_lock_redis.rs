//! The crate `distributed-lock-redis` on one server. Its `acquire` does not wait there.

use async_trait::async_trait;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};
use lock_core::toolkit::Location;

use crate::Outcome;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct DistributedLockRedis {
    provider: RedisLockProvider,
}

impl DistributedLockRedis {
    pub(super) async fn connect(url: &str) -> Outcome<DistributedLockRedis> {
        let url = Location::parse(url)?.base().to_owned();
        let provider = RedisLockProvider::builder().url(url).expiry(TTL).build().await?;
        Ok(DistributedLockRedis { provider })
    }
}

#[async_trait]
impl Subject for DistributedLockRedis {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles { lock: self.provider.create_lock(name) }))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("distributed-lock-redis does not wait on one server, and takes no part in a hand-over".into())
    }
}

struct Cycles {
    lock: RedisDistributedLock,
}

#[async_trait]
impl Worker for Cycles {
    async fn cycle(&mut self) -> Outcome<()> {
        let held = self.lock.acquire(None).await?;
        Ok(held.release().await?)
    }
}
