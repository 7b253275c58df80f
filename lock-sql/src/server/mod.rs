//! What MySQL and PostgreSQL have in common: a small pool of connections of our own, each with its estimate of the
//! server's clock, and what a URL says beside the driver's own options.

mod dialect;
mod link;
mod parameters;
mod pool;
mod table_name;
#[cfg(test)]
mod tests;

pub(crate) use dialect::{Answer, Dialect, Opened, Trouble};
pub(crate) use link::Moment;
pub(crate) use parameters::{Certificates, Parameters, Spellings};
pub(crate) use pool::{Pool, Purpose};
pub(crate) use table_name::TableName;

use std::time::Duration;

use lock_core::Error;
use sqlx::Error as SqlxError;

/// A duration as the server counts it, rounded up: never less than was asked for.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

/// What is left of a lease, of a server that said it in microseconds; `None` if it is over.
pub(crate) fn left(micros: i64) -> Option<Duration> {
    u64::try_from(micros).ok().filter(|left| *left > 0).map(Duration::from_micros)
}

/// There is no table of locks, and this user was refused to make it.
pub(crate) fn missing(table: &TableName, refusal: Error) -> Error {
    let message = format!(
        "there is no table {table}, and this user may not make it ({}); let one who may run `lock init --on URL`, or what \
         `lock schema --on URL` prints, or name one elsewhere in all URLs by table=",
        refusal.message()
    );
    Error::rejected(message).with_source(refusal)
}

/// Whether an answer came that is not what was asked for: to ask again would bring the same.
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
