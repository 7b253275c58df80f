//! What a connection leads to: a session of the server's that is ours alone, or one that a pooler lends us for each
//! transaction anew.
//!
//! Behind such a pooler nothing that was set lasts, prepared statements are somebody else's (a name that we prepared may
//! stand for another client's statement), and nobody hears a notification. So each connection is asked, before anything
//! else is sent on it, whether the server knows of a mark that only our own greeting can have brought there. The same
//! question tells the server's time, and whether it has our table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Error, Owner, Random, Result};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};

use super::errors;
use super::schema::{self, Found};
use super::statements::now;
use crate::server::{Opened, TableName};

/// How long the server lets a statement of ours run.
const STATEMENT_TIMEOUT: &str = "5s";
/// The oldest release that has everything the statements need.
const OLDEST: i32 = 120_000;

/// How connections are opened.
#[derive(Debug)]
pub(crate) struct Sessions {
    options: Plain,
    random: Random,
    table: TableName,
    greeting: Arc<str>,
    /// Whether a pooler was found in between: then no connection is greeted with what it may not understand.
    lent: AtomicBool,
    /// Whether the table of locks was created on one of the connections.
    created: AtomicBool,
}

/// What was given, without what we add. Never shown: it holds a password.
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
    pub(crate) tenure: Tenure,
}

/// Whose a session of the server's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    /// Ours, while the connection lasts.
    Own,
    /// Lent for a transaction.
    Lent(Commits),
}

/// When the server says that a transaction is done, unless it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// When it is on the disk.
    Durable,
    /// Before. A grant that a crash takes back would be a second holder's.
    Early,
}

impl Tenure {
    /// What a statement needs before it that the session doesn't have by itself.
    pub(crate) fn preface(self) -> &'static str {
        match self {
            Tenure::Own => "",
            Tenure::Lent(Commits::Durable) => LENT,
            Tenure::Lent(Commits::Early) => LENT_EARLY,
        }
    }
}

const LENT: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 5000; \
    SET LOCAL bytea_output = hex; ";
const LENT_EARLY: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 5000; \
    SET LOCAL bytea_output = hex; SET LOCAL synchronous_commit = on; ";

/// Asked in a form that any pooler passes on whole. A name may lead to a table that was created after the question's
/// snapshot was taken, in which it has no comment yet: it is there if that snapshot has it.
const GREETING: &str = concat!(
    "SELECT ",
    now!(),
    ", current_setting('onelock.session', true), pg_is_in_recovery(),
  current_setting('server_version_num')::int, current_setting('synchronous_commit') = 'off',
  EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass('{table}')),
  obj_description(to_regclass('{table}'), 'pg_class')"
);

impl Sessions {
    pub(crate) fn new(options: PgConnectOptions, table: TableName, random: Random) -> Sessions {
        Sessions {
            // Floats are never asked for, and poolers don't know the setting.
            options: Plain(options.extra_float_digits(None)),
            random,
            greeting: GREETING.replace("{table}", &table.quoted('"')).into(),
            table,
            lent: AtomicBool::new(false),
            created: AtomicBool::new(false),
        }
    }

    /// Whether one of them found no table of locks, and created it.
    pub(crate) fn have_created_table(&self) -> bool {
        self.created.load(Ordering::Acquire)
    }

    /// Whether a pooler lends us sessions.
    pub(crate) fn are_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire)
    }

    /// Takes note that a pooler does.
    pub(crate) fn learn_lent(&self) {
        self.lent.store(true, Ordering::Release);
    }

    pub(crate) async fn open(&self) -> Result<Opened<Session>> {
        let (options, mark) = self.greeting();
        let mut connection = match options.connect().await {
            Err(e) if mark.is_some() && errors::is_unknown_parameter(&e) => {
                self.learn_lent();
                self.options.0.connect().await
            }
            outcome => outcome,
        }
        .map_err(errors::connecting)?;
        let greeted = self.greet(&mut connection).await.map_err(errors::connecting)?;
        greeted.must_serve()?;
        self.prepare_table(&mut connection, &greeted.table).await?;
        let tenure = greeted.tenure(mark.as_deref());
        match tenure {
            Tenure::Lent(_) => self.learn_lent(),
            Tenure::Own if greeted.commits == Commits::Early => {
                connection.execute("SET synchronous_commit = on").await.map_err(errors::connecting)?;
            }
            Tenure::Own => {}
        }
        Ok(Opened { connection: Session { connection, tenure }, now: greeted.now })
    }

    /// What a server says at first.
    async fn greet(&self, connection: &mut PgConnection) -> sqlx::Result<Greeted> {
        let greeting = sqlx::raw_sql(AssertSqlSafe(self.greeting.clone()));
        Greeted::read(&connection.fetch_one(greeting).await?)
    }

    /// Each connection may lead to another server than the one before, or to one that was set up anew.
    async fn prepare_table(&self, connection: &mut PgConnection, found: &Found) -> Result<()> {
        if schema::is_ours(&self.table, found)? {
            return Ok(());
        }
        let create = sqlx::raw_sql(AssertSqlSafe(schema::create(&self.table)));
        let Err(e) = connection.execute(create).await else {
            self.created.store(true, Ordering::Release);
            return Ok(());
        };
        // Somebody else may have created it at the same moment.
        let again = self.greet(connection).await.map_err(errors::connecting)?;
        match schema::is_ours(&self.table, &again.table)? {
            true => Ok(()),
            false => Err(schema::not_created(&self.table, e)),
        }
    }

    /// Whether the session that answers on `connection` was greeted with `mark`.
    pub(crate) async fn is_own(
        &self,
        connection: impl Executor<'_, Database = sqlx::Postgres>,
        mark: &str,
    ) -> sqlx::Result<bool> {
        let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(self.greeting.clone()))).await?;
        Ok(Greeted::read(&row)?.mark.as_deref() == Some(mark))
    }

    /// How the next connection is greeted, and with which mark.
    pub(crate) fn greeting(&self) -> (PgConnectOptions, Option<String>) {
        if self.are_lent() {
            return (self.options.0.clone(), None);
        }
        let mark = Owner::mint(&self.random).to_string();
        let options = self.options.0.clone().options([
            ("default_transaction_isolation", "read committed"),
            ("statement_timeout", STATEMENT_TIMEOUT),
            ("bytea_output", "hex"),
            ("onelock.session", &mark),
        ]);
        (options, Some(mark))
    }
}

/// What a server said at first.
struct Greeted {
    now: i64,
    mark: Option<String>,
    is_standby: bool,
    version: i32,
    commits: Commits,
    table: Found,
}

impl Greeted {
    fn read(row: &PgRow) -> sqlx::Result<Greeted> {
        Ok(Greeted {
            now: row.try_get(0)?,
            mark: row.try_get(1)?,
            is_standby: row.try_get(2)?,
            version: row.try_get(3)?,
            commits: if row.try_get(4)? { Commits::Early } else { Commits::Durable },
            table: Found { is_there: row.try_get(5)?, comment: row.try_get(6)? },
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

    fn tenure(&self, mark: Option<&str>) -> Tenure {
        match mark.is_some() && self.mark.as_deref() == mark {
            true => Tenure::Own,
            false => Tenure::Lent(self.commits),
        }
    }
}
