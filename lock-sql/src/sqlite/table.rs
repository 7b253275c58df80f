//! The requests to the table of locks. Each call is one statement.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Finding, Grant, Release, Request, Revocation, Revoked, Takeover, When,
};
use lock_core::toolkit::{Call, CommonParameters, CurrentInfo, HeldKey, Prefix, Renewals};
use lock_core::{Error, Info, Label, Name, Owner, Result};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::file::File;
use super::info::info;
use super::renewals::Leases;
use super::serial_connection::{Answer, Route, SerialConnection, Writes};
use super::settings::{BootId, Sqlite, Trust};
use super::sweep::TableRows;
use super::time::{self, Time, nanoseconds};
use super::wakes::Wakes;
use super::{check, errors, takeover};
use crate::row::{self, Row};
use crate::sweep::Sweep;
use crate::table::{Course, Key, Listener, Table};

/// The table of locks in one file.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    /// The connection for looks while the other one is busy, so that they don't wait behind writes.
    looks: SerialConnection,
    pub(super) writes: SerialConnection,
    leases: Arc<Leases>,
    renewals: Renewals,
    pub(super) time: Time,
    pub(super) file: File,
    pub(super) trust: Trust,
    pub(super) boot: BootId,
    info: Arc<CurrentInfo>,
    prefix: Prefix,
    /// Opens a file of its own beside the database, and so not before that.
    wakes: OnceLock<Arc<Wakes>>,
    sweep: Sweep,
}

/// The grant of an attempt.
#[derive(Debug)]
struct Taken {
    token: i64,
    left: Duration,
}

/// Reads a lock's row.
///
/// Writes nothing.
const LOOK: &str =
    "SELECT owner, token, boot, expires, label, revoked FROM main.onelock_locks WHERE name = ?1";

/// Reads the names of the locks that are held and that begin with these bytes.
const LIST: &str = "
SELECT name FROM main.onelock_locks WHERE substr(name, 1, length(?1)) = ?1 AND boot = ?2 AND expires > ?3";

/// Grants a lock that is free, or that this owner holds already; then its token stays, and its lease is not shortened.
const TAKE: &str = "
INSERT INTO main.onelock_locks AS l (name, owner, token, boot, expires, label) VALUES (?1, ?2, ?3, ?4, ?5 + ?6, ?7)
ON CONFLICT (name) DO UPDATE SET
  token = CASE WHEN l.owner = ?2 AND l.boot = ?4 AND l.expires > ?5 THEN l.token ELSE max(l.token + 1, ?3) END,
  expires = CASE WHEN l.owner = ?2 AND l.boot = ?4 THEN max(l.expires, ?5 + ?6) ELSE ?5 + ?6 END,
  owner = ?2, boot = ?4, label = ?7, revoked = NULL
WHERE l.owner = ?2 OR l.boot <> ?4 OR l.expires <= ?5
RETURNING token, expires";

/// Releases the owner's lock, or what a revoke has left in its place.
///
/// Returns 1 if it was held until now, 0 if it had expired.
const RELEASE: &str = "
UPDATE main.onelock_locks SET owner = x'', label = '', expires = CASE WHEN boot = ?3 AND expires > ?4 THEN -1 ELSE -2 END
WHERE name = ?1 AND (owner = ?2 OR (revoked = ?2 AND boot = ?3 AND expires > ?4)) RETURNING expires = -1";

const REVOKE_AT_THE_END: &str = "
UPDATE main.onelock_locks SET owner = ?5, label = ?6, revoked = coalesce(revoked, ?2)
WHERE name = ?1 AND owner = ?2 AND boot = ?3 AND expires > ?4 RETURNING expires";

const REVOKE_NOW: &str = "
UPDATE main.onelock_locks SET owner = x'', label = '', expires = -1, revoked = coalesce(revoked, ?2)
WHERE name = ?1 AND owner = ?2 AND boot = ?3 AND expires > ?4 RETURNING expires";

impl SqliteTable {
    /// Finds the file's place, and does not open it.
    pub(super) fn new(sqlite: Sqlite) -> Result<SqliteTable> {
        let Sqlite { options, common, trust, boot } = sqlite;
        let CommonParameters { prefix, .. } = common;
        let file = File::at(options.get_filename())?;
        if trust == Trust::Local {
            file.must_be_local()?;
        }
        let time = Time::of_this_machine(boot)?;
        let place = format!("onelock_locks {}", prefix.as_str());
        let info = Arc::new(CurrentInfo::new(info(&file), place));
        let route = Arc::new(Route { options, file: file.clone(), time, info: info.clone() });
        let (looks, writes) = (SerialConnection::new(route.clone()), SerialConnection::new(route));
        Ok(SqliteTable {
            looks,
            leases: Arc::new(Leases { writes: writes.clone(), time }),
            renewals: Renewals::default(),
            writes,
            time,
            info,
            wakes: OnceLock::new(),
            file,
            trust,
            boot,
            prefix,
            sweep: Sweep::default(),
        })
    }

    pub(super) fn wakes(&self) -> &Arc<Wakes> {
        self.wakes.get_or_init(|| Wakes::of(self.file.path(), &self.prefix))
    }

    /// Returns the connection for a look. What the one that writes has written itself, it need not read from the file again.
    pub(super) fn looking(&self) -> &SerialConnection {
        if self.writes.is_idle() { &self.writes } else { &self.looks }
    }

    fn rows(&self) -> TableRows {
        TableRows { looks: self.looks.clone(), writes: self.writes.clone(), boot: self.time.boot().to_vec() }
    }

    /// Takes the lock. `None` if another owner holds it.
    async fn take(&self, call: &Call, key: &Key, request: &Request) -> Result<Option<Taken>> {
        let (key, boot, ttl) = (key.clone(), self.time.boot(), nanoseconds(request.ttl));
        let (owner, label) = (*request.owner.as_bytes(), request.label.clone());
        let answer = self
            .writes
            .ask(call, Writes::InTime, move |now| {
                let take = sqlx::query(TAKE).bind(key.to_vec()).bind(owner.to_vec()).bind(now.wall.max(1));
                take.bind(boot.to_vec()).bind(now.shared).bind(ttl).bind(label.as_str().to_owned())
            })
            .await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let token = row.try_get(0).map_err(errors::asking)?;
        let left = left(row, 1, answer.now)?.unwrap_or_default();
        Ok(Some(Taken { token, left }))
    }
}

#[async_trait]
impl Table for SqliteTable {
    fn info(&self) -> Arc<Info> {
        self.info.get()
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    async fn open(&self, call: &Call) -> Result<()> {
        self.writes.open(call).await?;
        self.wakes();
        Ok(())
    }

    async fn look(&self, call: &Call, key: &Key) -> Result<Option<Row>> {
        let (key, boot) = (key.clone(), self.time.boot());
        let Answer { rows, now } =
            self.looking().ask(call, Writes::Nothing, move |_| sqlx::query(LOOK).bind(key.to_vec())).await?;
        let row = rows.first().map(|row| read(row, boot, now)).transpose();
        row.map_err(errors::asking)
    }

    async fn attempt(&self, call: &Call, key: &Key, request: &Request, _: Course) -> Result<Attempt> {
        let held = self.look(call, key).await?;
        if let Some(row) = held
            && row.left.is_some()
            && !row.is_held_by(&request.owner)
        {
            return Ok(Attempt::Busy(row.into_busy()));
        }
        Ok(match self.take(call, key, request).await? {
            Some(Taken { token, left }) => Attempt::Granted(Grant::new(row::token(token)?, left)),
            // Another owner was faster.
            None => Attempt::Busy(Busy::default()),
        })
    }

    async fn take_over(
        &self,
        call: &Call,
        key: &Key,
        request: &Request,
        predecessor: &Owner,
    ) -> Result<Takeover> {
        takeover::take_over(self, call, key, request, predecessor).await
    }

    async fn renew(&self, call: &Call, key: &Key, owner: &Owner, ttl: Duration) -> Result<Option<Duration>> {
        let held = HeldKey { key: key.clone(), owner: *owner };
        self.renewals.renew(&self.leases, call, held, ttl).await
    }

    async fn release(&self, call: &Call, key: &Key, request: &Request, _: u32) -> Result<Release> {
        let (key, owner, boot) = (key.clone(), *request.owner.as_bytes(), self.time.boot());
        let answer = self
            .writes
            .ask(call, Writes::AlsoLate, move |now| {
                let release = sqlx::query(RELEASE).bind(key.to_vec()).bind(owner.to_vec());
                release.bind(boot.to_vec()).bind(now.shared)
            })
            .await?;
        self.sweep.after_a_release(call.clock(), || self.rows());
        let was_held = answer.rows.first().map_or(Ok(false), |row| row.try_get(0));
        let name = request.name.as_str();
        // Also if nothing was held: an earlier release may have been carried out without waking the waiters.
        self.wakes().wake(name);
        Ok(match was_held.map_err(errors::asking)? {
            true => Release::Released { others: self.wakes().others(name) },
            false => Release::NotHeld,
        })
    }

    async fn revoke(&self, call: &Call, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (key, boot) = (self.key(name), self.time.boot());
        let Revocation { holder, by, label, when, .. } = revocation;
        let answer = self
            .writes
            .ask(call, Writes::InTime, move |now| {
                let sql = match when {
                    When::HoldersDeadline => REVOKE_AT_THE_END,
                    When::Now => REVOKE_NOW,
                };
                let revoke = sqlx::query(sql).bind(key.to_vec()).bind(holder.as_bytes().to_vec());
                let revoke = revoke.bind(boot.to_vec()).bind(now.shared);
                match when {
                    When::HoldersDeadline => {
                        revoke.bind(by.as_bytes().to_vec()).bind(label.as_str().to_owned())
                    }
                    When::Now => revoke,
                }
            })
            .await?;
        let Some(row) = answer.rows.first() else { return Ok(Revoked::NotHeld) };
        if when == When::Now {
            self.wakes().wake(name.as_str());
            return Ok(Revoked::Free);
        }
        Ok(left(row, 0, answer.now)?.map_or(Revoked::Free, Revoked::FreeIn))
    }

    /// The wall clock: the one that ends leases starts with the machine. The two go at the same rate.
    async fn time(&self, _: &Call) -> Result<i64> {
        Ok(self.time.now().wall)
    }

    async fn listen(&self, _: &Call, _: &Key, name: &Name) -> Result<Option<Box<dyn Listener>>> {
        Ok(Some(Box::new(self.wakes().listen(name))))
    }

    async fn list(&self, call: &Call, beginning: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (beginning, boot) = (beginning.to_vec(), self.time.boot());
        let list = move |now: time::Now| {
            sqlx::query(LIST).bind(beginning.clone()).bind(boot.to_vec()).bind(now.shared)
        };
        let Answer { rows, .. } = self.looking().ask(call, Writes::Nothing, list).await?;
        rows.iter().map(|row| row.try_get(0).map_err(errors::asking)).collect()
    }

    async fn check(&self, call: &Call) -> Result<Vec<Finding>> {
        check::check(self, call).await
    }

    async fn init(&self, _: &Call) -> Result<String> {
        // The client that opened the file has created the table.
        Ok(String::new())
    }
}

fn read(row: &SqliteRow, boot: time::Boot, now: time::Now) -> Result<Row, sqlx::Error> {
    let token: i64 = row.try_get(1)?;
    // A lease of another boot is over, because the clock began anew.
    let this_boot = row.try_get::<Vec<u8>, _>(2)? == boot;
    let left = if this_boot { time::left(row.try_get(3)?, now.shared) } else { None };
    Ok(Row {
        owner: row.try_get(0)?,
        token,
        left,
        label: Label::read(row.try_get(4)?),
        revoked: row.try_get(5)?,
        since: Duration::from_micros(u64::try_from(now.wall.saturating_sub(token)).unwrap_or(0)),
    })
}

/// Reads what is left until the time in `column`.
pub(super) fn left(row: &SqliteRow, column: usize, now: time::Now) -> Result<Option<Duration>> {
    let expires = row.try_get(column).map_err(|e: sqlx::Error| {
        Error::rejected("the lock's row is not what a lock client writes").with_source(e)
    })?;
    Ok(time::left(expires, now.shared))
}
