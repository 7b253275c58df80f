//! The statements that renew leases.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::toolkit::{Call, HeldKey, Renews, whole_micros};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::answers::lease_left;
use super::dialect::PostgresDialect;
use super::errors;
use super::statement::Statement;
use super::statements::Statements;
use crate::server::{Pool, Purpose};

/// The leases in the table.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) pool: Pool<PostgresDialect>,
    pub(super) statements: Arc<Statements>,
}

impl Renews for Leases {
    async fn one(&self, call: &Call, held: &HeldKey, ttl: Duration) -> Result<Option<Duration>> {
        let (text, HeldKey { key, owner }) = (self.statements.renew.clone(), held.clone());
        let renew =
            move |_| Statement::new(&text).bytes(&key).bytes(owner.as_bytes()).number(whole_micros(ttl));
        let answer = self.pool.ask(call, Purpose::Maintain, renew).await?;
        answer.rows.first().map_or(Ok(None), lease_left)
    }

    async fn many(&self, call: &Call, held: Vec<HeldKey>, ttl: Duration) -> Result<Vec<Option<Duration>>> {
        let (text, mut told) = (self.statements.renew_many.clone(), vec![None; held.len()]);
        let renew = move |_| {
            let keys = held.iter().map(|held| held.key.to_vec()).collect();
            let owners = held.iter().map(|held| held.owner.as_bytes().to_vec()).collect();
            Statement::new(&text).many_bytes(keys).many_bytes(owners).number(whole_micros(ttl))
        };
        let answer = self.pool.ask(call, Purpose::Maintain, renew).await?;
        for row in &answer.rows {
            if let Some(told) = told.get_mut(place(row)?) {
                *told = lease_left(row)?;
            }
        }
        Ok(told)
    }
}

/// Reads which of the leases the row is about.
fn place(row: &PgRow) -> Result<usize> {
    let place: i64 = row.try_get(2).map_err(errors::reading)?;
    // Places begin with 1.
    Ok(usize::try_from(place).unwrap_or(0).wrapping_sub(1))
}
