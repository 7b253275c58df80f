//! The statements that the library sends, on the default table, for the benchmark `floor` (the raw driver with the same
//! statements). Not for users: they change with the layout of the table.

use std::time::Duration;

use lock_core::{Label, Owner, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};

use super::server::Server;
use super::statements::Statements;
use crate::server::{Dialect, LockWait, TableName};

/// Opens a connection as the library does.
pub async fn connect(options: MySqlConnectOptions) -> Result<MySqlConnection> {
    let server = Server::new(options, "", String::new());
    Ok(server.connect(LockWait::Bounded).await?.connection.connection)
}

/// The statement that takes a free lock, unless `deadline` has passed (in the server's microseconds). `LAST_INSERT_ID`
/// is then the token, or zero if the lock was not taken.
pub fn take(name: &str, owner: &Owner, ttl: Duration, label: &Label, deadline: i64) -> String {
    statements().take(name.as_bytes(), owner, ttl, label, deadline).text
}

/// The statement that reads a lock's row.
pub fn look(name: &str) -> String {
    statements().look(name.as_bytes()).text
}

/// The statements that make the row of a name that has none, and take the lock, in one packet. The answer is that of
/// [`take`].
pub fn make_and_take(name: &str, owner: &Owner, ttl: Duration, label: &Label, deadline: i64) -> String {
    statements().make_and_take(name.as_bytes(), owner, ttl, label, deadline).text
}

/// The statement that releases the lock. `LAST_INSERT_ID` is then zero if the lock was not held.
pub fn release(name: &str, owner: &Owner) -> String {
    statements().release(name.as_bytes(), owner).text
}

fn statements() -> Statements {
    Statements::on(&TableName::default())
}
