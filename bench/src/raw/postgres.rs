//! sqlx on PostgreSQL.

use lock_core::toolkit::Location;
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::Outcome;

/// Returns the driver's options from the part of the URL before the `?`. The parameters after it are for our backend.
pub(crate) fn options(url: &str) -> Outcome<PgConnectOptions> {
    let options: PgConnectOptions = Location::parse(url)?.base().parse()?;
    Ok(options.disable_statement_logging())
}

pub(crate) async fn connect(url: &str) -> Outcome<PgConnection> {
    Ok(options(url)?.connect().await?)
}
