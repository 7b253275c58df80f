//! The driver: opens claims, inspects locks, revokes them from their holders. It is the same for every dialect.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Claim, Context, Driver, Finding, Inspection, Request, Revocation, Revoked};
use lock_core::toolkit::{Call, Opening};
use lock_core::{Clock, Info, Name, Result};

use crate::claim::SqlClaim;
use crate::on_first_use::OnFirstUse;
use crate::row::Row;
use crate::table::Table;

/// The driver of one table of locks.
#[derive(Debug)]
pub(crate) struct SqlDriver<T> {
    table: Arc<OnFirstUse<T>>,
    clock: Clock,
}

impl<T: Table> SqlDriver<T> {
    pub(crate) async fn open(table: T, opening: Opening, context: Context) -> Result<SqlDriver<T>> {
        let Context { clock, patience, .. } = context;
        let table = Arc::new(OnFirstUse::new(table));
        if opening == Opening::Waits {
            table.opened(&Call::begin(&clock, patience)).await?;
        }
        Ok(SqlDriver { table, clock })
    }
}

#[async_trait]
impl<T: Table> Driver for SqlDriver<T> {
    fn info(&self) -> Arc<Info> {
        self.table.offline().info()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SqlClaim::new(self.table.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = Call::begin(&self.clock, patience);
        let table = self.table.opened(&call).await?;
        let row = table.look(&call, &table.key(name)).await?;
        Ok(Inspection::new(row.and_then(Row::into_holder), None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let call = Call::begin(&self.clock, revocation.patience);
        self.table.opened(&call).await?.revoke(&call, name, revocation).await
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let call = Call::begin(&self.clock, patience);
        let table = self.table.opened(&call).await?;
        let prefix = table.prefix();
        let keys = table.list(&call, format!("{}{beginning}", prefix.as_str()).as_bytes()).await?;
        Ok(keys.iter().filter_map(|key| prefix.name(key)).collect())
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let call = Call::begin(&self.clock, patience);
        self.table.opened(&call).await?.check(&call).await
    }

    async fn init(&self, patience: Duration) -> Result<String> {
        let call = Call::begin(&self.clock, patience);
        self.table.opened(&call).await?.init(&call).await
    }
}
