//! The very statements on the default table, for the benchmark's floor. Not for users: they change with the table.

use std::time::Duration;

use lock_core::{Label, Owner, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};

use super::server::Server;
use super::statements::Statements;
use crate::server::{Dialect, TableName};

/// A connection as the library opens it.
pub async fn connect(options: MySqlConnectOptions) -> Result<MySqlConnection> {
    Ok(Server::new(options, "", String::new()).connect().await?.connection)
}

/// What takes a free lock, until `deadline` in the server's microseconds. `LAST_INSERT_ID` is the token, or zero.
pub fn take(name: &str, owner: &Owner, ttl: Duration, label: &Label, deadline: i64) -> String {
    statements().take(name.as_bytes(), owner, ttl, label, deadline).text
}

/// What releases it. `LAST_INSERT_ID` is zero if it was not held.
pub fn release(name: &str, owner: &Owner) -> String {
    statements().release(name.as_bytes(), owner).text
}

fn statements() -> Statements {
    Statements::on(&TableName::default())
}
