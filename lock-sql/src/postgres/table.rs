//! The requests to the table of locks. Each call is one statement.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Context, Finding, Grant, Release, Request, Revocation, Revoked, Takeover, When,
};
use lock_core::toolkit::{Call, CurrentInfo, HeldKey, Prefix, Renewals, whole_micros};
use lock_core::{Effect, Error, ErrorKind, Info, Name, Owner, Random, Result};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::answers::{self, Taken};
use super::dialect::PostgresDialect;
use super::info::info;
use super::renewals::Leases;
use super::session::Sessions;
use super::settings::Postgres;
use super::statement::Statement;
use super::statements::Statements;
use super::sweep::TableRows;
use super::wakes::{Holder, Waiter, Wakes};
use super::{check, errors, schema, statements, takeover};
use crate::row::{self, Row};
use crate::server::{Answer, Moment, Pool, Purpose, TableName};
use crate::sweep::Sweep;
use crate::table::{Course, Key, Listener, Table};

/// The table of locks on one server.
#[derive(Debug)]
pub(crate) struct PostgresTable {
    pub(super) pool: Pool<PostgresDialect>,
    /// The table's name, with its schema.
    pub(super) name: TableName,
    pub(super) statements: Arc<Statements>,
    pub(super) prefix: Prefix,
    pub(super) random: Random,
    leases: Arc<Leases>,
    renewals: Renewals,
    sessions: Arc<Sessions>,
    wakes: Arc<Wakes>,
    /// The number of the table in which a lock was last taken; 0 before the first.
    pub(super) number: AtomicI64,
    sweep: Sweep,
}

/// The time for which a release learns from a mark that a client waits. A waiting claim looks again within 5 s, and
/// then refreshes its mark.
const MARK: Duration = Duration::from_secs(20);
/// The age that a mark may reach before it is refreshed. More than half of its time is left then.
pub(super) const REFRESHED: Duration = Duration::from_secs(3);

/// Writes the marks that show that claims wait.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    pool: Pool<PostgresDialect>,
    statements: Arc<Statements>,
}

impl Marks {
    /// Writes the mark, unless there is one. Returns the number of the table.
    pub(super) async fn write(&self, call: &Call, key: &Key) -> Result<i64> {
        let (key, text) = (key.clone(), self.statements.mark.clone());
        let mark = move |_| Statement::new(&text).bytes(&key).number(whole_micros(MARK));
        let answer = self.pool.ask(call, Purpose::Acquire, mark).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)?;
        row.try_get(1).map_err(errors::reading)
    }
}

impl PostgresTable {
    /// Describes the table, and asks the server nothing.
    pub(super) fn new(postgres: Postgres, context: &Context, server: String) -> Result<PostgresTable> {
        let Postgres { options, parameters } = postgres;
        // sqlx names a provider of its own for every mode but this one.
        #[cfg(feature = "tls")]
        if matches!(options.get_ssl_mode(), sqlx::postgres::PgSslMode::VerifyCa) {
            lock_core::toolkit::check_tls_provider()?;
        }
        let name = schema::located(&parameters.table);
        let place = format!("{} {}", name.quoted('"'), parameters.common.prefix.as_str());
        let info = CurrentInfo::new(info(server), place);
        let sessions = Arc::new(Sessions::new(options, parameters.table, context.random.clone(), info));
        let dialect = PostgresDialect { sessions: sessions.clone() };
        let pool = Pool::new(dialect, parameters.connections, context.patience);
        let statements = Arc::new(Statements::of(&name));
        Ok(PostgresTable {
            leases: Arc::new(Leases { pool: pool.clone(), statements: statements.clone() }),
            renewals: Renewals::default(),
            pool,
            statements,
            name,
            wakes: Arc::new(Wakes::new(sessions.clone(), parameters.common.prefix.clone(), context.clone())),
            number: AtomicI64::new(0),
            prefix: parameters.common.prefix,
            random: context.random.clone(),
            sessions,
            sweep: Sweep::default(),
        })
    }

    /// Returns whether notifications of releases are received from this server.
    pub(super) async fn receives_notifications(&self, call: &Call) -> Result<bool> {
        if self.sessions.are_pooled() {
            return Ok(false);
        }
        // A mark for a name without a row. It returns the number of the table.
        let table = self.marks().write(call, &Key::default()).await?;
        Ok(unless_pooled(self.wakes.confirm(call, table).await)?.is_some())
    }

    fn marks(&self) -> Marks {
        Marks { pool: self.pool.clone(), statements: self.statements.clone() }
    }

    fn rows(&self) -> TableRows {
        TableRows { pool: self.pool.clone(), sweep: self.statements.sweep.clone() }
    }

    async fn ask(
        &self,
        call: &Call,
        purpose: Purpose,
        text: &Arc<str>,
        key: &Key,
        bind: impl Fn(Statement) -> Statement + Send + Sync + 'static,
    ) -> Result<Answer<PgRow>> {
        let (text, key) = (text.clone(), key.clone());
        self.pool.ask(call, purpose, move |_| bind(Statement::new(&text).bytes(&key))).await
    }

    async fn look_for(&self, purpose: Purpose, call: &Call, key: &Key) -> Result<Option<Row>> {
        let answer = self.ask(call, purpose, &self.statements.look, key, |look| look).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)?;
        answers::row(row).map_err(errors::reading)
    }

    async fn take(&self, call: &Call, key: &Key, request: &Request) -> Result<Taken> {
        let (text, key, owner) = (self.statements.take.clone(), key.clone(), *request.owner.as_bytes());
        let (ttl, label) = (whole_micros(request.ttl), request.label.clone());
        let take = move |moment: Moment| {
            let take = Statement::new(&text).bytes(&key).bytes(&owner).number(ttl).number(moment.deadline);
            take.bytes(label.as_str().as_bytes())
        };
        let answer = self.pool.ask(call, Purpose::Acquire, take).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)?;
        Taken::read(row, &request.owner).map_err(errors::reading)
    }
}

#[async_trait]
impl Table for PostgresTable {
    fn info(&self) -> Arc<Info> {
        self.sessions.info()
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    async fn open(&self, call: &Call) -> Result<()> {
        self.pool.open_one(call).await
    }

    async fn look(&self, call: &Call, key: &Key) -> Result<Option<Row>> {
        self.look_for(Purpose::Maintain, call, key).await
    }

    async fn attempt(&self, call: &Call, key: &Key, request: &Request, course: Course) -> Result<Attempt> {
        let looks = match course {
            Course::LookSeveralTimes(times) => times.get(),
            // The statement looks first.
            Course::Take | Course::LookFirst => 0,
        };
        for _ in 0..looks {
            // As an attempt that finds the lock held: it must leave a connection for renewals.
            let shown = self.look_for(Purpose::Acquire, call, key).await.map_err(Error::not_applied)?;
            match shown {
                Some(row) if row.left.is_some() && !row.is_held_by(&request.owner) => {
                    return Ok(Attempt::Busy(row.into_busy()));
                }
                _ => {}
            }
        }
        loop {
            return Ok(match self.take(call, key, request).await? {
                Taken::Granted { token, left, table } => {
                    self.number.store(table, Ordering::Release);
                    Attempt::Granted(Grant::new(row::token(token)?, left))
                }
                Taken::Held(row) => Attempt::Busy(row.into_busy()),
                Taken::LostRace => Attempt::Busy(Busy::default()),
                // The answer contained the server's time, and the next deadline is computed from it.
                Taken::Late if !call.left().is_zero() => continue,
                Taken::Late => return Err(late()),
            });
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

    async fn release(&self, call: &Call, key: &Key, request: &Request, heard: u32) -> Result<Release> {
        let owner = *request.owner.as_bytes();
        let release = move |release: Statement| release.bytes(&owner).number(i64::from(heard));
        let answer = self.ask(call, Purpose::Maintain, &self.statements.release, key, release).await?;
        self.sweep.after_a_release(call.clock(), || self.rows());
        let Some(row) = answer.rows.first() else { return Ok(Release::NotHeld) };
        let read = || Ok((row.try_get(1)?, row.try_get(2)?));
        let (was_held, others): (bool, bool) = read().map_err(errors::reading)?;
        Ok(match was_held {
            true => Release::Released { others: Some(others) },
            false => Release::NotHeld,
        })
    }

    async fn revoke(&self, call: &Call, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, .. } = revocation;
        let text = match when {
            When::HoldersDeadline => &self.statements.revoke_at_the_end,
            When::Now => &self.statements.revoke_now,
        };
        let revoke = move |revoke: Statement| {
            let revoke = revoke.bytes(holder.as_bytes());
            match when {
                When::HoldersDeadline => revoke.bytes(by.as_bytes()).bytes(label.as_str().as_bytes()),
                When::Now => revoke,
            }
        };
        let answer = self.ask(call, Purpose::Maintain, text, &self.key(name), revoke).await?;
        let Some(row) = answer.rows.first() else { return Ok(Revoked::NotHeld) };
        Ok(answers::lease_left(row)?.map_or(Revoked::Free, Revoked::FreeIn))
    }

    async fn time(&self, call: &Call) -> Result<i64> {
        let text: Arc<str> = statements::TIME.into();
        let answer = self.pool.ask(call, Purpose::Maintain, move |_| Statement::new(&text)).await?;
        answer.now.ok_or(sqlx::Error::RowNotFound).map_err(errors::reading)
    }

    async fn listen(&self, call: &Call, key: &Key, name: &Name) -> Result<Option<Box<dyn Listener>>> {
        if self.sessions.are_pooled() {
            return Ok(None);
        }
        let (marks, marked) = (self.marks(), call.clock().now());
        let table = marks.write(call, key).await?;
        let listening = unless_pooled(self.wakes.listen(call, name, table).await)?;
        Ok(listening.map(|listening| {
            let (wakes, key, marked) = (self.wakes.clone(), key.clone(), Mutex::new(marked));
            Box::new(Waiter { listening, wakes, key, marks, marked }) as Box<dyn Listener>
        }))
    }

    async fn watch(&self, call: &Call, owner: &Owner) -> Result<Option<Box<dyn Listener>>> {
        if self.sessions.are_pooled() {
            return Ok(None);
        }
        // No statement is sent on a connection that a renewal may need. The grant has told the number of the table,
        // which may have been created anew since another lock was taken.
        let table = self.number.load(Ordering::Acquire);
        let watching = self.wakes.watch(call, owner, (table != 0).then_some(table)).await;
        Ok(unless_pooled(watching)?.map(|watching| Box::new(Holder(watching)) as Box<dyn Listener>))
    }

    async fn list(&self, call: &Call, beginning: &[u8]) -> Result<Vec<Vec<u8>>> {
        let beginning = Key::from(beginning);
        let answer = self.ask(call, Purpose::Acquire, &self.statements.list, &beginning, |list| list).await?;
        answer.rows.iter().map(|row| row.try_get(1).map_err(errors::reading)).collect()
    }

    async fn check(&self, call: &Call) -> Result<Vec<Finding>> {
        check::check(self, call).await
    }

    async fn init(&self, _: &Call) -> Result<String> {
        // The client that opened the first connection has created the table.
        Ok(match self.sessions.have_created_table() {
            true => format!("created the table {}", self.name),
            false => String::new(),
        })
    }
}

/// Returns `None` if a pooler stands in between, so that no notification is received.
fn unless_pooled<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        outcome => outcome.map(Some),
    }
}

pub(super) fn late() -> Error {
    Error::unavailable(Effect::NotApplied, "the request reached the server after its deadline")
}
