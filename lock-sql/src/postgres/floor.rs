//! The very statements on the default table, for the benchmark's floor. Not for users: they change with the table.

use std::sync::Arc;

use lock_core::{Prefix, Random, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::info::info;
use super::session::Sessions;
use super::statements::{self, Statements};
use super::{payload, schema};
use crate::profile::Profile;
use crate::server::TableName;

/// What an acquisition, a wait and a release send.
#[derive(Clone, Debug)]
pub struct Texts {
    /// Name, owner, ttl and deadline in microseconds, label as bytes.
    pub take: Arc<str>,
    /// The column of the token in its answer; NULL if it was not granted.
    pub token: usize,
    /// Name, how long it lasts in microseconds. The table's number is in the second column.
    pub mark: Arc<str>,
    /// Name, owner. No row: it was not held.
    pub release: Arc<str>,
}

/// The texts on the default table.
pub fn texts() -> Texts {
    let table = schema::located(&TableName::default());
    let Statements { take, mark, release, .. } = Statements::of(&table);
    Texts { take, token: statements::TOKEN, mark, release }
}

/// A connection as the library opens it.
pub async fn connect(options: PgConnectOptions) -> Result<PgConnection> {
    let profile = Profile::new(info(String::new()), "", &Prefix::default());
    let sessions = Sessions::new(options, TableName::default(), Random::system(), profile);
    Ok(sessions.open().await?.connection.connection)
}

/// Where releases in the table with this number are told.
pub fn channel(table: i64) -> String {
    payload::channel(table)
}

/// What tells of the release of a name.
pub fn payload(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}
