//! The common part of MySQL and PostgreSQL: a small pool of our own connections, each with its estimate of
//! the server clock, and the URL parameters beside the driver's own.

mod dialect;
mod link;
mod parameters;
mod pool;
mod request_queue;
mod serving;
mod table_name;
#[cfg(test)]
mod tests;

pub(crate) use dialect::{Answer, Dialect, Opened, Trouble};
pub(crate) use link::Moment;
pub(crate) use parameters::{Certificates, Parameters};
pub(crate) use pool::Pool;
pub(crate) use request_queue::{LockWait, Purpose};
pub(crate) use table_name::TableName;

use std::time::Duration;

use lock_core::Error;
use sqlx::Error as SqlxError;

/// Converts what is left of a lease from the server's microseconds. `None` if the lease is over.
pub(crate) fn left(micros: i64) -> Option<Duration> {
    u64::try_from(micros).ok().filter(|left| *left > 0).map(Duration::from_micros)
}

/// The error for a missing table of locks that this user may not create.
pub(crate) fn missing(table: &TableName, refusal: Error) -> Error {
    let message = format!(
        "there is no table {table}, and this user may not create it ({}); let a user with that right run \
         `lock init --on URL`, or the statements that `lock schema --on URL` prints, or name a table elsewhere by \
         table= in all URLs",
        refusal.message()
    );
    Error::rejected(message).with_source(refusal)
}

/// Returns whether the server sent an answer that the statement doesn't ask for. The same statement would get
/// the same answer again.
pub(crate) fn is_misread(error: &SqlxError) -> bool {
    use SqlxError::{
        ColumnDecode, ColumnIndexOutOfBounds, ColumnNotFound, Decode, RowNotFound, TypeNotFound,
    };
    matches!(
        error,
        RowNotFound
            | ColumnDecode { .. }
            | ColumnIndexOutOfBounds { .. }
            | ColumnNotFound(_)
            | Decode(_)
            | TypeNotFound { .. }
    )
}
