//! A takeover: one owner takes the place of another one, in one statement.

use lock_core::driver::{Grant, Request, Takeover};
use lock_core::toolkit::Call;
use lock_core::{Owner, Result};

use super::table::{MySqlTable, is_table_missing, looked};
use crate::row;
use crate::server::{Moment, Purpose};
use crate::table::Key;

/// Puts the owner of `request` in the place of `predecessor`, if that holds the lock.
pub(super) async fn take_over(
    table: &MySqlTable,
    call: &Call,
    key: &Key,
    request: &Request,
    predecessor: &Owner,
) -> Result<Takeover> {
    loop {
        let (statements, key) = (table.statements.clone(), key.clone());
        let (owner, of) = (request.owner, *predecessor);
        let (ttl, label) = (request.ttl, request.label.clone());
        let take_over =
            move |Moment { deadline }| statements.take_over(&key, &owner, &of, ttl, &label, deadline);
        // The predecessor's work has ended, as before a release: looks of waiters must not keep this from a connection.
        let answer = match table.pool.ask(call, Purpose::Maintain, take_over).await {
            Err(e) if is_table_missing(&e) => return Ok(Takeover::NotHeld),
            answer => answer?,
        };
        if answer.last_insert_id != 0 {
            return granted(answer.last_insert_id, request);
        }
        let is_still_held = looked(&answer)?.is_some_and(|row| row.is_held_by(predecessor));
        if !is_still_held {
            return Ok(Takeover::NotHeld);
        }
        // It came after its deadline. The look has told the server's time, and the next deadline is computed from it.
    }
}

/// Reads a number of [`TokenAndOthers`](super::statements::Number::TokenAndOthers).
fn granted(number: u64, request: &Request) -> Result<Takeover> {
    let token = row::token(i64::try_from(number / 2).unwrap_or(0))?;
    Ok(Takeover::Granted { grant: Grant::new(token, request.ttl), others: Some(number % 2 == 1) })
}
