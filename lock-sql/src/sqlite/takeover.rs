//! A takeover: one owner takes the place of another one, in one statement.

use lock_core::driver::{Grant, Request, Takeover};
use lock_core::toolkit::Call;
use lock_core::{Owner, Result};
use sqlx::Row as _;

use super::errors;
use super::serial_connection::Writes;
use super::table::{SqliteTable, left};
use super::time::nanoseconds;
use crate::row;
use crate::table::Key;

/// Puts an owner in the place of its predecessor, if that holds the lock.
const SUCCEED: &str = "
UPDATE main.onelock_locks SET token = max(token + 1, ?3), owner = ?2, expires = ?5 + ?6, label = ?7, revoked = NULL
WHERE name = ?1 AND owner = ?8 AND boot = ?4 AND expires > ?5
RETURNING token, expires";

/// Puts the owner of `request` in the place of `predecessor`, if that holds the lock.
pub(super) async fn take_over(
    table: &SqliteTable,
    call: &Call,
    key: &Key,
    request: &Request,
    predecessor: &Owner,
) -> Result<Takeover> {
    let (key, boot, ttl) = (key.clone(), table.time.boot(), nanoseconds(request.ttl));
    let (owner, predecessor) = (*request.owner.as_bytes(), *predecessor.as_bytes());
    let label = request.label.clone();
    let answer = table
        .writes
        .ask(call, Writes::InTime, move |now| {
            let take_over =
                sqlx::query(SUCCEED).bind(key.to_vec()).bind(owner.to_vec()).bind(now.wall.max(1));
            let take_over = take_over.bind(boot.to_vec()).bind(now.shared).bind(ttl);
            take_over.bind(label.as_str().to_owned()).bind(predecessor.to_vec())
        })
        .await?;
    let Some(row) = answer.rows.first() else { return Ok(Takeover::NotHeld) };
    let token = row::token(row.try_get(0).map_err(errors::asking)?)?;
    let grant = Grant::new(token, left(row, 1, answer.now)?.unwrap_or_default());
    // They wait on: the lock was not free.
    Ok(Takeover::Granted { grant, others: table.wakes().others(request.name.as_str()) })
}
