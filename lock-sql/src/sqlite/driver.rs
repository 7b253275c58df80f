//! The driver: a client's side of one file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Claim, Driver, Entry, Fair, Fencing, Finding, Inspection, Lease, Request, Revocation, Revoked, Wakes,
};
use lock_core::{Clock, Context, FencingToken, Info, Name, OwnerBytes, Result};

use super::call::Call;
use super::check;
use super::file::File;
use super::lane::Route;
use super::schema;
use super::settings::{Sqlite, Trust};
use super::sweep::IDLE;
use super::table::{Row, Table};
use super::time::{PROMISE, Time};
use crate::claim::SqlClaim;

/// Claims locks in one file.
#[derive(Debug)]
pub(crate) struct SqliteDriver {
    table: Arc<Table>,
    file: File,
    trust: Trust,
    info: Arc<Info>,
    clock: Clock,
}

impl SqliteDriver {
    pub(crate) async fn open(sqlite: Sqlite, context: Context) -> Result<SqliteDriver> {
        let Sqlite { options, prefix, trust, .. } = sqlite;
        let file = File::at(options.get_filename())?;
        if trust == Trust::Local {
            file.must_be_local()?;
        }
        let route = Route { options, file: file.clone(), time: Time::of_this_machine()? };
        let table = Arc::new(Table::open(route, prefix, &context.clock, context.patience).await?);
        let info = Arc::new(info(&file));
        Ok(SqliteDriver { table, file, trust, info, clock: context.clock })
    }
}

fn info(file: &File) -> Info {
    Info {
        backend: "sqlite",
        server: file.path().display().to_string(),
        fencing: Fencing::WhileDataIsKept {
            clock_step: IDLE,
            kept: "each grant is on the disk before it counts; after the file was lost or restored, tokens rise \
                   unless the wall clock stands behind the last one"
                .to_owned(),
        },
        lease: Lease::Lock,
        fair: Fair::No,
        wakes: Wakes::Polled,
        min_ttl: Duration::from_millis(50),
        max_ttl: Duration::from_secs(365 * 24 * 3600),
        clock: PROMISE,
        data_loss: "a file that is deleted or replaced frees every lock; its holders are told at their next renewal"
            .to_owned(),
        requests_per_hand_over: 3,
    }
}

#[async_trait]
impl Driver for SqliteDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SqlClaim::new(self.table.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = Call::begin(&self.clock, patience);
        let row = self.table.look(&call, &self.table.key(name)).await?;
        Ok(Inspection { holder: row.and_then(into_holder), waiters: None })
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let call = Call::begin(&self.clock, revocation.patience);
        self.table.revoke(&call, name, revocation).await
    }

    fn schema(&self) -> String {
        format!("-- made by whoever opens the file first\n{};", schema::CREATE)
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let call = Call::begin(&self.clock, patience);
        check::check(&self.table, &self.file, self.trust, &call).await
    }
}

fn into_holder(row: Row) -> Option<Entry> {
    let left = row.left?;
    Some(Entry {
        owner: OwnerBytes::new(row.owner),
        label: Some(row.label),
        token: u64::try_from(row.token).ok().and_then(FencingToken::new),
        since: Some(row.since),
        expires_in: Some(left),
    })
}
