//! The driver: opens claims, inspects locks, revokes them from their holders. It is the same for every dialect.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Call, Claim, Driver, Finding, Inspection, Request, Revocation, Revoked};
use lock_core::{Clock, Info, Name, Result};

use crate::claim::SqlClaim;
use crate::row::Row;
use crate::table::Table;

/// The driver of one table of locks.
#[derive(Debug)]
pub(crate) struct SqlDriver<T> {
    table: Arc<T>,
    clock: Clock,
}

impl<T: Table> SqlDriver<T> {
    pub(crate) fn new(table: T, clock: Clock) -> SqlDriver<T> {
        SqlDriver { table: Arc::new(table), clock }
    }
}

#[async_trait]
impl<T: Table> Driver for SqlDriver<T> {
    fn info(&self) -> Arc<Info> {
        self.table.info()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SqlClaim::new(self.table.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = Call::begin(&self.clock, patience);
        let row = self.table.look(&call, &self.table.key(name)).await?;
        Ok(Inspection::new(row.and_then(Row::into_holder), None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let call = Call::begin(&self.clock, revocation.patience);
        self.table.revoke(&call, name, revocation).await
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.table.check(&Call::begin(&self.clock, patience)).await
    }

    async fn init(&self, patience: Duration) -> Result<String> {
        self.table.init(&Call::begin(&self.clock, patience)).await
    }
}
