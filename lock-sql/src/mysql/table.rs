//! The table of locks on a MySQL or MariaDB server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Finding, Grant, Release, Request, Revocation, Revoked, Takeover, When};
use lock_core::toolkit::{Call, HeldKey, Prefix, Renewals};
use lock_core::{Error, Info, Label, Name, Owner, Result};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::errors::{self, Code};
use super::renewals::Leases;
use super::schema::{self, Made};
use super::server::Server;
use super::settings::MySql;
use super::statements::{self, Statements};
use super::sweep::TableRows;
use super::waiter::Waiter;
use super::{check, takeover};
use crate::row::{self, Row};
use crate::server::{Answer, Moment, Pool, Purpose, TableName, left};
use crate::sweep::Sweep;
use crate::table::{Course, Key, Listener, Table};

/// The table of locks in one database.
#[derive(Debug)]
pub(crate) struct MySqlTable {
    pub(super) pool: Pool<Server>,
    pub(super) statements: Statements,
    /// The table's name, with its database.
    pub(super) name: TableName,
    prefix: Prefix,
    leases: Arc<Leases>,
    renewals: Renewals,
    sweep: Sweep,
}

/// The result of an attempt.
#[derive(Debug)]
enum Found {
    /// The lock was free, and is ours now.
    Taken {
        token: i64,
    },
    /// There is a row.
    Row(Row),
    /// There is none yet.
    Nothing,
    /// Another client has created the row meanwhile.
    RowOfAnother,
    NoTable,
}

impl MySqlTable {
    /// Describes the table, and asks the server nothing. `name` includes its database.
    pub(super) fn new(
        mysql: MySql,
        name: TableName,
        address: &str,
        patience: Duration,
    ) -> Result<MySqlTable> {
        let MySql { options, parameters } = mysql;
        // sqlx names a provider of its own for every mode but this one.
        #[cfg(feature = "tls")]
        if matches!(options.get_ssl_mode(), sqlx::mysql::MySqlSslMode::VerifyCa) {
            lock_core::toolkit::check_tls_provider()?;
        }
        let server = Server::new(
            options,
            address,
            format!("{} {}", name.quoted('`'), parameters.common.prefix.as_str()),
        );
        let (pool, statements) = (Pool::new(server, parameters.connections, patience), Statements::on(&name));
        Ok(MySqlTable {
            leases: Arc::new(Leases { pool: pool.clone(), statements: statements.clone() }),
            renewals: Renewals::default(),
            pool,
            statements,
            name,
            prefix: parameters.common.prefix,
            sweep: Sweep::default(),
        })
    }

    fn rows(&self) -> TableRows {
        TableRows { pool: self.pool.clone(), statements: self.statements.clone() }
    }

    /// Takes the lock if it is free; otherwise reads its row.
    async fn take(&self, call: &Call, key: &Key, request: &Request, row: Existence) -> Result<Found> {
        let (statements, key, owner) = (self.statements.clone(), key.clone(), request.owner);
        let (ttl, label) = (request.ttl, request.label.clone());
        let take = move |Moment { deadline }| match row {
            Existence::Expected => statements.take(&key, &owner, ttl, &label, deadline),
            Existence::Missing => statements.make_and_take(&key, &owner, ttl, &label, deadline),
        };
        match self.pool.ask(call, Purpose::Acquire, take).await {
            Ok(answer) => match i64::try_from(answer.last_insert_id) {
                Ok(token @ 1..) => Ok(Found::Taken { token }),
                _ => found(&answer),
            },
            Err(e) if errors::code_of(&e) == Some(Code::DUPLICATE) => Ok(Found::RowOfAnother),
            Err(e) if is_table_missing(&e) => Ok(Found::NoTable),
            Err(e) => Err(e),
        }
    }
}

/// The state of a name's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    Expected,
    Missing,
}

#[async_trait]
impl Table for MySqlTable {
    fn info(&self) -> Arc<Info> {
        self.pool.dialect().info()
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    async fn open(&self, call: &Call) -> Result<()> {
        schema::prepare(self, call).await.map(drop)
    }

    async fn look(&self, call: &Call, key: &Key) -> Result<Option<Row>> {
        let (statements, key) = (self.statements.clone(), key.clone());
        let answer = self.pool.ask(call, Purpose::Acquire, move |_| statements.look(&key)).await;
        match answer {
            Ok(answer) => looked(&answer),
            Err(e) if is_table_missing(&e) => Ok(None),
            // Whatever the outcome, nothing was done.
            Err(e) => Err(e.not_applied()),
        }
    }

    async fn attempt(&self, call: &Call, key: &Key, request: &Request, course: Course) -> Result<Attempt> {
        let mut found = match course {
            Course::Take => self.take(call, key, request, Existence::Expected).await?,
            Course::LookFirst | Course::LookSeveralTimes(_) => {
                self.look(call, key).await?.map_or(Found::Nothing, Found::Row)
            }
        };
        loop {
            found = match found {
                Found::Taken { token } => {
                    return Ok(Attempt::Granted(Grant::new(row::token(token)?, request.ttl)));
                }
                // Ours already, by an attempt whose answer was lost. The lease now counts from this attempt, as from
                // any other.
                Found::Row(row) if row.is_held_by(&request.owner) => {
                    match self.renew(call, key, &request.owner, request.ttl).await? {
                        Some(valid_for) => {
                            let token = row::token(row.token)?;
                            return Ok(Attempt::Granted(Grant::new(token, valid_for)));
                        }
                        // The lease has ended meanwhile.
                        None => self.take(call, key, request, Existence::Expected).await?,
                    }
                }
                Found::Row(row) if row.left.is_some() => return Ok(Attempt::Busy(row.into_busy())),
                // Free: it was only looked at, another client had it in between, or the server clock was set, as this
                // connection has just learned.
                Found::Row(_) | Found::RowOfAnother => {
                    self.take(call, key, request, Existence::Expected).await?
                }
                Found::Nothing => self.take(call, key, request, Existence::Missing).await?,
                // A server that has lost its data gets a table again, like a new server.
                Found::NoTable => {
                    schema::prepare(self, call).await?;
                    Found::Nothing
                }
            };
        }
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
        let (statements, key, owner) = (self.statements.clone(), key.clone(), request.owner);
        let answer =
            match self.pool.ask(call, Purpose::Maintain, move |_| statements.release(&key, &owner)).await {
                Err(e) if is_table_missing(&e) => return Ok(Release::NotHeld),
                answer => answer?,
            };
        self.sweep.after_a_release(call.clock(), || self.rows());
        Ok(match answer.last_insert_id {
            0 => Release::NotHeld,
            held => Release::Released { others: Some(held % 2 == 1) },
        })
    }

    async fn revoke(&self, call: &Call, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (statements, key) = (self.statements.clone(), self.key(name));
        let Revocation { holder, by, label, when, .. } = revocation;
        let revoke = move |_| statements.revoke(&key, &holder, &by, &label, when);
        let answer = self.pool.ask(call, Purpose::Acquire, revoke).await?;
        Ok(match (left(i64::try_from(answer.last_insert_id).unwrap_or(0)), when) {
            (None, _) => Revoked::NotHeld,
            (Some(_), When::Now) => Revoked::Free,
            (Some(left), When::HoldersDeadline) => Revoked::FreeIn(left),
        })
    }

    async fn time(&self, call: &Call) -> Result<i64> {
        let answer = self.pool.ask(call, Purpose::Maintain, |_| statements::time()).await?;
        answer.now.ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)
    }

    async fn listen(&self, call: &Call, key: &Key, _: &Name) -> Result<Option<Box<dyn Listener>>> {
        let waiter = Waiter::new(self.pool.clone(), self.statements.clone(), key.clone());
        waiter.mark(call).await?;
        Ok(Some(Box::new(waiter)))
    }

    async fn list(&self, call: &Call, beginning: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (statements, beginning) = (self.statements.clone(), beginning.to_vec());
        match self.pool.ask(call, Purpose::Acquire, move |_| statements.list(&beginning)).await {
            Ok(answer) => {
                answer.rows.iter().map(|row| row.try_get("name").map_err(errors::reading)).collect()
            }
            Err(e) if is_table_missing(&e) => Ok(Vec::new()),
            Err(e) => Err(e.not_applied()),
        }
    }

    async fn check(&self, call: &Call) -> Result<Vec<Finding>> {
        check::check(self, call).await
    }

    async fn init(&self, call: &Call) -> Result<String> {
        Ok(match schema::prepare(self, call).await? {
            Made::Now => format!("created the table {}", self.name),
            Made::Before => String::new(),
        })
    }
}

/// Returns whether the table is missing. No owner holds anything then.
pub(super) fn is_table_missing(error: &Error) -> bool {
    errors::code_of(error) == Some(Code::NO_TABLE)
}

/// Reads what a look shows.
fn found(answer: &Answer<MySqlRow>) -> Result<Found> {
    Ok(looked(answer)?.map_or(Found::Nothing, Found::Row))
}

/// Reads the row that a look shows.
pub(super) fn looked(answer: &Answer<MySqlRow>) -> Result<Option<Row>> {
    answer.rows.first().map(read).transpose().map_err(errors::reading)
}

fn read(row: &MySqlRow) -> sqlx::Result<Row> {
    let (now, token): (i64, i64) = (row.try_get("now")?, row.try_get("token")?);
    Ok(Row {
        owner: row.try_get("owner")?,
        token,
        left: left(row.try_get::<i64, _>("expires")?.saturating_sub(now)),
        label: Label::read(row.try_get("label")?),
        revoked: row.try_get("revoked")?,
        since: Duration::from_micros(u64::try_from(now.saturating_sub(token)).unwrap_or(0)),
    })
}
