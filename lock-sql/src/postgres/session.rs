//! The session behind a connection: one of the server that is ours alone, or one that a pooler lends for each
//! transaction anew.
//!
//! Behind such a pooler, no setting lasts and no client receives a notification. Prepared statements belong to other
//! clients: a name that we prepared may stand for another client's statement. So before anything else is sent on a
//! connection, the server is asked whether it knows a mark that only our own greeting can have set. The same question
//! reads the server's time, and whether the server has our table. Each question and each statement also sets what it
//! relies on, so that nothing depends on what another client left in the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::driver::Wakes;
use lock_core::toolkit::CurrentInfo;
use lock_core::{Error, Info, Owner, Random, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};

use super::schema::{self, Found};
use super::statements::now;
use super::{errors, other_tables};
use crate::server::{LockWait, Opened, TableName};

/// The oldest release with everything that the statements need.
const OLDEST: i32 = 120_000;

/// The settings with which connections are opened.
#[derive(Debug)]
pub(crate) struct Sessions {
    options: Plain,
    random: Random,
    /// The table, as the caller named it.
    named: TableName,
    /// The table, with its schema.
    table: TableName,
    greeting: Arc<str>,
    /// A pooler was found in between. If so, connections are opened without settings that the pooler may not
    /// understand.
    pooled: AtomicBool,
    info: CurrentInfo,
    /// The table of locks was created on one of the connections.
    created: AtomicBool,
    /// A session was asked where the user's own search path leads.
    path_checked: AtomicBool,
}

/// The options that the user gave, without our additions. Never shown: they hold a password.
struct Plain(PgConnectOptions);

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A connection, and what it leads to.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    pub(crate) kind: SessionKind,
    lock_wait: LockWait,
}

/// The owner of a server's session: this client alone, or a pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// The session belongs to this client, while the connection lasts.
    Own,
    /// The session is lent for one transaction.
    Pooled,
}

impl Session {
    /// Returns the statements that must precede a statement, because the session doesn't have their settings by itself.
    pub(crate) fn preface(&self) -> &'static str {
        match (self.kind, self.lock_wait) {
            (SessionKind::Own, _) => "",
            (SessionKind::Pooled, LockWait::Bounded) => PINNED,
            (SessionKind::Pooled, LockWait::Never) => PINNED_WITHOUT_WAITING,
        }
    }
}

macro_rules! pinned {
    () => {
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL role TO DEFAULT; \
         SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL synchronous_commit = on; SET LOCAL row_security = on; \
         SET LOCAL statement_timeout = 5000; SET LOCAL bytea_output = hex; "
    };
}

/// The settings that our statements rely on, set for the transaction that begins with it. A pooled session has the
/// settings that another client left there.
///
/// - A grant counts when it is on the disk, here and at the synchronous standbys. If a crash could take a grant back,
///   there would be a second holder.
/// - Functions and operators are the server's own.
/// - Policies for rows are applied. If that were switched off, a table with a policy would be an error.
/// - The role is the one that this user begins with.
///
/// Whether transactions may write is not set. Administrators keep writers out by that setting, and so does software
/// that promotes standbys.
pub(super) const PINNED: &str = concat!(pinned!(), "SET LOCAL lock_timeout = 1000; ");

/// The same for statements that wait for no row.
const PINNED_WITHOUT_WAITING: &str = concat!(pinned!(), "SET LOCAL lock_timeout = 1; ");

/// The settings of a session of our own, given in its greeting for as long as it lasts.
const OWN: [(&str, &str); 5] = [
    ("default_transaction_isolation", "read committed"),
    ("synchronous_commit", "on"),
    ("row_security", "on"),
    ("statement_timeout", "5000"),
    ("bytea_output", "hex"),
];

/// Returns the time for which a statement waits for a row that another transaction has locked, or for the table.
fn lock_timeout(lock_wait: LockWait) -> (&'static str, &'static str) {
    // 0 would mean without end.
    let millis = match lock_wait {
        LockWait::Bounded => "1000",
        LockWait::Never => "1",
    };
    ("lock_timeout", millis)
}

/// A setting that is sent, too, once a session was asked where the user's own search path leads.
const PATH: (&str, &str) = ("search_path", "pg_catalog, pg_temp");

/// The first question on a connection, in a form that any pooler passes on whole. The table's name may lead to a table
/// that was created after the question's snapshot was taken; in that snapshot the table has no comment yet. So the
/// table counts as existing only if that snapshot has it.
const GREETING: &str = concat!(
    "SELECT ",
    now!(),
    ", current_setting('onelock.session', true), pg_is_in_recovery(),
  current_setting('server_version_num')::int,
  (SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('{table}')),
  obj_description(to_regclass('{table}'), 'pg_class'),
  (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || ' ' ||
    (SELECT oid::text FROM pg_database WHERE datname = current_database())"
);

impl Sessions {
    pub(crate) fn new(
        options: PgConnectOptions,
        named: TableName,
        random: Random,
        info: CurrentInfo,
    ) -> Sessions {
        let table = schema::located(&named);
        Sessions {
            // No float is ever read, and poolers don't know this setting.
            options: Plain(options.extra_float_digits(None)),
            random,
            greeting: format!("{PINNED}{}", GREETING.replace("{table}", &table.quoted('"'))).into(),
            named,
            table,
            pooled: AtomicBool::new(false),
            info,
            created: AtomicBool::new(false),
            path_checked: AtomicBool::new(false),
        }
    }

    /// Returns whether one of the connections found no table of locks, and created it.
    pub(crate) fn have_created_table(&self) -> bool {
        self.created.load(Ordering::Acquire)
    }

    /// Returns what the server of the newest connection guarantees.
    pub(crate) fn info(&self) -> Arc<Info> {
        self.info.get()
    }

    /// Returns whether a pooler lends us sessions.
    pub(crate) fn are_pooled(&self) -> bool {
        self.pooled.load(Ordering::Acquire)
    }

    /// Records that a pooler lends us sessions.
    pub(crate) fn learn_pooled(&self) {
        self.pooled.store(true, Ordering::Release);
        // It forwards no notifications.
        self.info.change(|info| info.wakes = Wakes::Polled);
    }

    pub(crate) async fn open(&self, lock_wait: LockWait) -> Result<Opened<Session>> {
        let checks_path = !self.path_checked.load(Ordering::Acquire);
        let (options, mark) = match checks_path {
            true => self.greeting_without_path(lock_wait),
            false => self.greeting(lock_wait),
        };
        let mut connection = match options.connect().await {
            Err(e) if mark.is_some() && errors::is_unknown_parameter(&e) => {
                self.learn_pooled();
                self.options.0.connect().await
            }
            outcome => outcome,
        }
        .map_err(errors::connecting)?;
        let greeted = self.greet(&mut connection).await.map_err(errors::connecting)?;
        greeted.must_serve()?;
        self.info.learn_server(greeted.server.as_deref());
        self.prepare_table(&mut connection, &greeted.table).await?;
        let kind = greeted.kind(mark.as_deref());
        if kind == SessionKind::Pooled {
            self.learn_pooled();
        }
        if checks_path {
            self.check_path(&mut connection, kind).await?;
        }
        Ok(Opened { connection: Session { connection, kind, lock_wait }, now: greeted.now })
    }

    /// Asks where the user's own search path leads, and then sets our own path for the session.
    async fn check_path(&self, connection: &mut PgConnection, kind: SessionKind) -> Result<()> {
        other_tables::must_match_search_path(connection, &self.named).await?;
        if kind == SessionKind::Own {
            let pin = sqlx::raw_sql(AssertSqlSafe(format!("SET {} = {}", PATH.0, PATH.1)));
            connection.execute(pin).await.map_err(errors::connecting)?;
        }
        self.path_checked.store(true, Ordering::Release);
        Ok(())
    }

    /// Asks the first question.
    async fn greet(&self, connection: &mut PgConnection) -> sqlx::Result<Greeted> {
        let greeting = sqlx::raw_sql(AssertSqlSafe(self.greeting.clone()));
        Greeted::read(&connection.fetch_one(greeting).await?)
    }

    /// Creates the table if it is missing: each connection may lead to another server than the one before, or to a new
    /// one.
    async fn prepare_table(&self, connection: &mut PgConnection, found: &Found) -> Result<()> {
        if schema::is_ours(&self.table, found)? {
            return Ok(());
        }
        other_tables::refuse_second_table(connection, &self.named).await?;
        let create = sqlx::raw_sql(AssertSqlSafe(format!("{PINNED}{}", schema::create(&self.table))));
        let Err(e) = connection.execute(create).await else {
            self.created.store(true, Ordering::Release);
            return Ok(());
        };
        // Another client may have created the table at the same moment.
        let again = self.greet(connection).await.map_err(errors::connecting)?;
        match schema::is_ours(&self.table, &again.table)? {
            true => Ok(()),
            false => Err(schema::not_created(&self.table, e)),
        }
    }

    /// Returns whether the session that answers on `connection` was greeted with `mark`.
    pub(crate) async fn is_own(
        &self,
        connection: impl Executor<'_, Database = sqlx::Postgres>,
        mark: &str,
    ) -> sqlx::Result<bool> {
        let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(self.greeting.clone()))).await?;
        Ok(Greeted::read(&row)?.mark.as_deref() == Some(mark))
    }

    /// Returns the question for the number (oid) of the table of locks.
    pub(crate) fn which_table(&self) -> String {
        format!("SELECT to_regclass('{}')::oid::int8", self.table.quoted('"'))
    }

    /// Returns the options for the next connection, and the mark in them.
    pub(crate) fn greeting(&self, lock_wait: LockWait) -> (PgConnectOptions, Option<String>) {
        let (options, mark) = self.greeting_without_path(lock_wait);
        (if mark.is_some() { options.options([PATH]) } else { options }, mark)
    }

    fn greeting_without_path(&self, lock_wait: LockWait) -> (PgConnectOptions, Option<String>) {
        if self.are_pooled() {
            return (self.options.0.clone(), None);
        }
        let mark = Owner::mint(&self.random).to_string();
        let options = self.options.0.clone().options(OWN).options([lock_timeout(lock_wait)]);
        let options = options.options([("onelock.session", &mark)]);
        (options, Some(mark))
    }
}

/// The answer to the first question.
struct Greeted {
    now: i64,
    mark: Option<String>,
    is_standby: bool,
    version: i32,
    table: Found,
    /// When the server was started, in microseconds, which copies of its files don't share; and which of its databases
    /// this is.
    server: Option<String>,
}

impl Greeted {
    fn read(row: &PgRow) -> sqlx::Result<Greeted> {
        Ok(Greeted {
            now: row.try_get(0)?,
            mark: row.try_get(1)?,
            is_standby: row.try_get(2)?,
            version: row.try_get(3)?,
            table: Found { persistence: row.try_get(4)?, comment: row.try_get(5)? },
            server: row.try_get(6)?,
        })
    }

    fn must_serve(&self) -> Result<()> {
        if self.version < OLDEST {
            let (major, needed) = (self.version / 10_000, OLDEST / 10_000);
            return Err(Error::unsupported(format!(
                "the server is PostgreSQL {major}; it takes {needed} or later"
            )));
        }
        if self.is_standby {
            return Err(errors::standby());
        }
        Ok(())
    }

    fn kind(&self, mark: Option<&str>) -> SessionKind {
        match mark.is_some() && self.mark.as_deref() == mark {
            true => SessionKind::Own,
            false => SessionKind::Pooled,
        }
    }
}
