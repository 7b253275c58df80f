//! sqlx on MySQL and MariaDB.

use lock_core::toolkit::Location;
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};

use crate::Outcome;

/// Returns the driver's options from the part of the URL before the `?`. The parameters after it are for our backend.
pub(crate) fn options(url: &str) -> Outcome<MySqlConnectOptions> {
    let options: MySqlConnectOptions = Location::parse(url)?.base().parse()?;
    Ok(options.disable_statement_logging())
}

pub(crate) async fn connect(url: &str) -> Outcome<MySqlConnection> {
    Ok(options(url)?.connect().await?)
}
