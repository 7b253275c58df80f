//! The server's answers, parsed.

use std::time::Duration;

use lock_core::{Label, Owner, Result};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::{errors, statements};
use crate::row::Row;
use crate::server::left;

/// The outcome of one try to take a lock.
#[derive(Debug)]
pub(super) enum Taken {
    Granted {
        token: i64,
        left: Duration,
        /// The number of the table.
        table: i64,
    },
    /// Another owner holds the lock.
    Held(Row),
    /// The lock was free when it was looked at, but another owner took it first.
    LostRace,
    /// The deadline had passed, and nothing was done.
    Late,
}

impl Taken {
    pub(super) fn read(answer: &PgRow, owner: &Owner) -> sqlx::Result<Taken> {
        if let Some(token) = answer.try_get(statements::TOKEN)? {
            let (now, expires): (i64, i64) = (answer.try_get(0)?, answer.try_get(7)?);
            let left = left(expires.saturating_sub(now)).unwrap_or_default();
            return Ok(Taken::Granted { token, left, table: answer.try_get(9)? });
        }
        Ok(match row(answer)? {
            Some(row) if row.left.is_some() && !row.is_held_by(owner) => Taken::Held(row),
            _ if answer.try_get(8)? => Taken::Late,
            _ => Taken::LostRace,
        })
    }
}

/// Reads the row of the table, whose columns follow the server's time in an answer.
pub(super) fn row(answer: &PgRow) -> sqlx::Result<Option<Row>> {
    let now: i64 = answer.try_get(0)?;
    let Some(owner) = answer.try_get(1)? else { return Ok(None) };
    let (token, expires, label): (i64, i64, Vec<u8>) =
        (answer.try_get(2)?, answer.try_get(3)?, answer.try_get(4)?);
    Ok(Some(Row {
        owner,
        token,
        left: left(expires.saturating_sub(now)),
        label: Label::read(&String::from_utf8_lossy(&label)),
        revoked: answer.try_get(5)?,
        since: Duration::from_micros(u64::try_from(now.saturating_sub(token)).unwrap_or(0)),
    }))
}

/// Reads what is left of a lease that ends at the time in the second column.
pub(super) fn lease_left(answer: &PgRow) -> Result<Option<Duration>> {
    let read = || Ok((answer.try_get::<i64, _>(0)?, answer.try_get::<i64, _>(1)?));
    let (now, expires) = read().map_err(errors::reading)?;
    Ok(left(expires.saturating_sub(now)))
}
