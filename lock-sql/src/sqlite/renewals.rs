//! The statements that renew leases.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::Result;
use lock_core::toolkit::{Call, HeldKey, Renews};
use sqlx::{AssertSqlSafe, Row as _};

use super::errors;
use super::serial_connection::{SerialConnection, Writes};
use super::table::left;
use super::time::{Now, Time, nanoseconds};

/// The leases in the table.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) writes: SerialConnection,
    pub(super) time: Time,
}

/// Boot, now, ttl, name, owner.
const RENEW: &str = "
UPDATE main.onelock_locks SET expires = max(expires, ?2 + ?3)
WHERE name = ?4 AND owner = ?5 AND boot = ?1 AND expires > ?2 RETURNING expires";

/// Boot, now, ttl; names with their owners follow. Renews like [`RENEW`], each row by itself, and returns each owner whose
/// lock it has renewed.
const RENEW_MANY: &str = "
UPDATE main.onelock_locks AS l SET expires = max(l.expires, ?2 + ?3) FROM held
WHERE l.name = held.name AND l.owner = held.owner AND l.boot = ?1 AND l.expires > ?2 RETURNING expires, owner";

impl Renews for Leases {
    async fn one(&self, call: &Call, held: &HeldKey, ttl: Duration) -> Result<Option<Duration>> {
        let (HeldKey { key, owner }, boot, ttl) = (held.clone(), self.time.boot(), nanoseconds(ttl));
        let renew = move |now: Now| {
            let renew = sqlx::query(RENEW).bind(boot.to_vec()).bind(now.shared).bind(ttl);
            renew.bind(key.to_vec()).bind(owner.as_bytes().to_vec())
        };
        let answer = self.writes.ask(call, Writes::InTime, renew).await?;
        answer.rows.first().map_or(Ok(None), |row| left(row, 0, answer.now))
    }

    /// A statement and its commit, which waits for the disk, serve all of them.
    async fn many(&self, call: &Call, held: Vec<HeldKey>, ttl: Duration) -> Result<Vec<Option<Duration>>> {
        let (leases, boot, ttl) = (held.clone(), self.time.boot(), nanoseconds(ttl));
        let renew = move |now: Now| {
            let text = format!("WITH held (name, owner) AS (VALUES {}) {RENEW_MANY}", pairs(leases.len()));
            let renew = sqlx::query(AssertSqlSafe(text)).persistent(false);
            let renew = renew.bind(boot.to_vec()).bind(now.shared).bind(ttl);
            leases.iter().fold(renew, |renew, HeldKey { key, owner }| {
                renew.bind(key.to_vec()).bind(owner.as_bytes().to_vec())
            })
        };
        let answer = self.writes.ask(call, Writes::InTime, renew).await?;
        let mut told = HashMap::new();
        for row in &answer.rows {
            let owner: Vec<u8> = row.try_get(1).map_err(errors::asking)?;
            told.insert(owner, left(row, 0, answer.now)?);
        }
        Ok(held.iter().map(|held| told.get(&held.owner.as_bytes()[..]).copied().flatten()).collect())
    }
}

/// Returns the places of this many names with their owners, after three other values.
fn pairs(leases: usize) -> String {
    let pairs: Vec<_> = (0..leases).map(|n| format!("(?{}, ?{})", 2 * n + 4, 2 * n + 5)).collect();
    pairs.join(", ")
}
