//! PostgreSQL's advisory locks through sqlx' `PgAdvisoryLock`, on a pool with as many connections as the library has.

use async_trait::async_trait;
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgAdvisoryLock, PgAdvisoryLockGuard, PgPool, PgPoolOptions};

use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject};

pub(super) struct AdvisoryLock {
    pool: PgPool,
}

impl AdvisoryLock {
    pub(super) async fn connect(url: &str) -> Outcome<AdvisoryLock> {
        // The pool's own test of a connection would add a round trip to each cycle.
        let options = PgPoolOptions::new().test_before_acquire(false);
        let connections = u32::try_from(raw::connections_of(url)?)?;
        let pool = options.max_connections(connections).connect_with(raw::postgres::options(url)?).await?;
        Ok(AdvisoryLock { pool })
    }
}

#[async_trait]
impl Subject for AdvisoryLock {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Named { pool: self.pool.clone(), lock: PgAdvisoryLock::new(name), guard: None }))
    }
}

struct Named {
    pool: PgPool,
    lock: PgAdvisoryLock,
    /// The lock and the connection that it occupies.
    guard: Option<PgAdvisoryLockGuard<PoolConnection<Postgres>>>,
}

#[async_trait]
impl Side for Named {
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
