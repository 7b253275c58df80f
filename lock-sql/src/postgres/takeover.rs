//! A takeover: one owner takes the place of another one, in one statement.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::driver::{Grant, Request, Takeover};
use lock_core::toolkit::{Call, whole_micros};
use lock_core::{Owner, Result};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::errors;
use super::statement::Statement;
use super::table::{PostgresTable, late};
use crate::row;
use crate::server::{Moment, Purpose, left};
use crate::table::Key;

/// Puts the owner of `request` in the place of `predecessor`, if that holds the lock.
pub(super) async fn take_over(
    table: &PostgresTable,
    call: &Call,
    key: &Key,
    request: &Request,
    predecessor: &Owner,
) -> Result<Takeover> {
    loop {
        return Ok(match replace(table, call, key, request, predecessor).await? {
            Replaced::Granted { token, left, others, table: number } => {
                table.number.store(number, Ordering::Release);
                let grant = Grant::new(row::token(token)?, left);
                Takeover::Granted { grant, others: Some(others) }
            }
            Replaced::NotHeld => Takeover::NotHeld,
            // The answer contained the server's time, and the next deadline is computed from it.
            Replaced::Late if !call.left().is_zero() => continue,
            Replaced::Late => return Err(late()),
        });
    }
}

/// The outcome of one try.
#[derive(Debug)]
enum Replaced {
    Granted {
        token: i64,
        left: Duration,
        /// Another client waits.
        others: bool,
        /// The number of the table.
        table: i64,
    },
    /// The predecessor does not hold the lock.
    NotHeld,
    /// The deadline had passed, and nothing was done.
    Late,
}

impl Replaced {
    fn read(answer: &PgRow) -> sqlx::Result<Replaced> {
        let Some(token) = answer.try_get(1)? else {
            return Ok(if answer.try_get(5)? { Replaced::Late } else { Replaced::NotHeld });
        };
        let (now, expires): (i64, i64) = (answer.try_get(0)?, answer.try_get(2)?);
        let left = left(expires.saturating_sub(now)).unwrap_or_default();
        Ok(Replaced::Granted { token, left, others: answer.try_get(3)?, table: answer.try_get(4)? })
    }
}

async fn replace(
    table: &PostgresTable,
    call: &Call,
    key: &Key,
    request: &Request,
    predecessor: &Owner,
) -> Result<Replaced> {
    let (text, key) = (table.statements.take_over.clone(), key.clone());
    let (owner, predecessor) = (*request.owner.as_bytes(), *predecessor.as_bytes());
    let (ttl, label) = (whole_micros(request.ttl), request.label.clone());
    let take_over = move |moment: Moment| {
        let take_over = Statement::new(&text).bytes(&key).bytes(&owner).number(ttl).number(moment.deadline);
        take_over.bytes(label.as_str().as_bytes()).bytes(&predecessor)
    };
    // The predecessor's work has ended, as before a release: looks of waiters must not keep this from a connection.
    let answer = table.pool.ask(call, Purpose::Maintain, take_over).await?;
    let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)?;
    Replaced::read(row).map_err(errors::reading)
}
