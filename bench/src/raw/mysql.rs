//! sqlx on MySQL and MariaDB.

use lock_core::Location;
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};

use crate::Outcome;

/// What stands before the URL's `?`: the parameters behind it are our backend's.
pub(crate) fn options(url: &str) -> Outcome<MySqlConnectOptions> {
    let options: MySqlConnectOptions = Location::parse(url)?.base().parse()?;
    Ok(options.disable_statement_logging())
}

pub(crate) async fn connect(url: &str) -> Outcome<MySqlConnection> {
    Ok(options(url)?.connect().await?)
}
