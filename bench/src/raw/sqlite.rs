//! sqlx on a SQLite file.

use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::Outcome;

/// Returns the driver's options from the path in the URL. The parameters after it are for our backend.
pub(crate) fn options(url: &str) -> Outcome<SqliteConnectOptions> {
    let path = url.split_once(':').ok_or("no URL")?.1.split('?').next().unwrap_or_default();
    let file = path.strip_prefix("//").unwrap_or(path);
    Ok(SqliteConnectOptions::new().filename(file).disable_statement_logging())
}
