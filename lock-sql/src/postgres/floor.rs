//! The statements that the library sends, on the default table, for the benchmark `floor` (the raw driver with the same
//! statements). Not for users: they change with the layout of the table.

use std::sync::Arc;

use lock_core::toolkit::CurrentInfo;
use lock_core::{Random, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::info::info;
use super::session::Sessions;
use super::statements::{self, Statements};
use super::{payload, schema};
use crate::server::{LockWait, TableName};

/// The statements of an acquisition, a wait and a release.
#[derive(Clone, Debug)]
pub struct Texts {
    /// Name, owner, ttl and deadline in microseconds, label as bytes.
    pub take: Arc<str>,
    /// The column of the token in the answer to `take`; NULL if the lock was not granted.
    pub token: usize,
    /// Name, how long the mark lasts in microseconds. The table's number is in the second column of the answer.
    pub mark: Arc<str>,
    /// Name, owner, how many releases the owner has heard. Returns no row if the lock was not held.
    pub release: Arc<str>,
}

/// Returns the texts for the default table.
pub fn texts() -> Texts {
    let table = schema::located(&TableName::default());
    let Statements { take, mark, release, .. } = Statements::of(&table);
    Texts { take, token: statements::TOKEN, mark, release }
}

/// Opens a connection as the library does.
pub async fn connect(options: PgConnectOptions) -> Result<PgConnection> {
    let info = CurrentInfo::new(info(String::new()), String::new());
    let sessions = Sessions::new(options, TableName::default(), Random::system(), info);
    Ok(sessions.open(LockWait::Bounded).await?.connection.connection)
}

/// Returns the channel on which releases in the table with this number are notified.
pub fn channel(table: i64) -> String {
    payload::channel(table)
}

/// Returns the payload that notifies of the release of a name by an owner that did not wait.
pub fn payload(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    digits + "#0"
}
