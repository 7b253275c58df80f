//! sqlx, with the driver's options from a URL of our backends. Their parameters, after the `?`, are not for the driver.

use lock_core::toolkit::Location;
use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::Outcome;

pub(crate) fn mysql(url: &str) -> Outcome<MySqlConnectOptions> {
    Ok(Location::parse(url)?.base().parse::<MySqlConnectOptions>()?.disable_statement_logging())
}

pub(crate) fn postgres(url: &str) -> Outcome<PgConnectOptions> {
    Ok(Location::parse(url)?.base().parse::<PgConnectOptions>()?.disable_statement_logging())
}

pub(crate) fn sqlite(url: &str) -> Outcome<SqliteConnectOptions> {
    let path = url.split_once(':').ok_or("no URL")?.1.split('?').next().unwrap_or_default();
    let file = path.strip_prefix("//").unwrap_or(path);
    Ok(SqliteConnectOptions::new().filename(file).disable_statement_logging())
}

/// Returns the number of connections that the library opens on a server.
pub(crate) fn connections(url: &str) -> Outcome<usize> {
    Ok(Location::parse(url)?.take("connections").map_or(Ok(8), |n| n.parse())?)
}
