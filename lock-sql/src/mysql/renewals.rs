//! The statements that renew leases.

use std::time::Duration;

use lock_core::Result;
use lock_core::toolkit::{Call, HeldKey, Renews};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::errors;
use super::server::Server;
use super::statements::Statements;
use super::table::is_table_missing;
use crate::server::{Pool, Purpose, left};

/// The leases in the table.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) pool: Pool<Server>,
    pub(super) statements: Statements,
}

impl Renews for Leases {
    async fn one(&self, call: &Call, held: &HeldKey, ttl: Duration) -> Result<Option<Duration>> {
        let (statements, HeldKey { key, owner }) = (self.statements.clone(), held.clone());
        let renew = move |_| statements.renew(&key, &owner, ttl);
        match self.pool.ask(call, Purpose::Maintain, renew).await {
            Ok(answer) => Ok(left(i64::try_from(answer.last_insert_id).unwrap_or(0))),
            Err(e) if is_table_missing(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn many(&self, call: &Call, held: Vec<HeldKey>, ttl: Duration) -> Result<Vec<Option<Duration>>> {
        let (statements, renewed) = (self.statements.clone(), held.clone());
        let renew = move |_| statements.renew_many(&renewed, ttl);
        let answer = self.pool.ask(call, Purpose::Maintain, renew).await?;
        // Rows are shown only after all of them were renewed, except those whose leases were over.
        let shown: Vec<Shown> =
            answer.rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(errors::reading)?;
        let left_of = |held: &HeldKey| {
            let of_it = |(key, owner, _): &&Shown| **key == *held.key && *owner == held.owner.as_bytes();
            shown.iter().find(of_it).and_then(|(_, _, left)| *left)
        };
        Ok(held.iter().map(left_of).collect())
    }
}

/// A name, its owner, and what is left of the lease.
type Shown = (Vec<u8>, Vec<u8>, Option<Duration>);

fn read(row: &MySqlRow) -> sqlx::Result<Shown> {
    Ok((row.try_get("name")?, row.try_get("owner")?, left(row.try_get("lasts")?)))
}
