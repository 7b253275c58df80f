//! A MySQL or MariaDB server: how to connect, and how to run a statement.

use std::fmt;
use std::mem;
use std::sync::Arc;

use futures_util::TryStreamExt;
use lock_core::toolkit::CurrentInfo;
use lock_core::{Error, Info, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Either, Row};

use super::errors;
use super::facts::Facts;
use super::info::describe;
use super::statements::{NOW, Number, Statement};
use crate::server::{Answer, Dialect, LockWait, Opened, Trouble};

/// A server that connections are opened to.
pub(crate) struct Server {
    options: MySqlConnectOptions,
    /// The facts that the last connection found out.
    info: CurrentInfo,
}

/// Returns the statement that sets what our statements rely on, whatever the server's defaults are and whatever a session
/// begins with. Each statement is a transaction of its own, waits for another transaction's lock for a second at most, and
/// reads the clock in UTC. A query returns all that it finds, however long it takes. A value that doesn't fit is an error. A
/// connection lives longer than the pool keeps an idle one. The time limit of a query has another name on each product, and
/// each product takes the other's name for a comment.
///
/// MariaDB can be told to wait for no lock at all. MySQL takes no time below a second.
///
/// It also records the time: a clock that shows the same time in a later statement was set, and stands still.
fn session(lock_wait: LockWait) -> String {
    let no_wait = match lock_wait {
        LockWait::Bounded => "",
        LockWait::Never => "/*M!100500 innodb_lock_wait_timeout = 0, */",
    };
    format!(
        "SET autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = 1, {no_wait} lock_wait_timeout = 1, \
         wait_timeout = 60, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_safe_updates = 0, \
         sql_select_limit = 18446744073709551615, sql_big_selects = 1, \
         /*!80000 max_execution_time = 0, */ /*M!100500 max_statement_time = 0, */ \
         @onelock_began = UTC_TIMESTAMP(6), NAMES utf8mb4"
    )
}

/// The identity of the server, on MySQL only. A copy of a server's files has the same uuid, but not the same host name
/// and port. MariaDB's `server_uid` is made of the network card's address and the port, which containers on two
/// machines have in common.
const ID: &str =
    "/*!80000 CONCAT(@@GLOBAL.server_uuid, ' ', @@GLOBAL.hostname, ':', @@GLOBAL.port) AS id, */";

impl Server {
    pub(super) fn new(options: MySqlConnectOptions, address: &str, place: String) -> Server {
        // All that sqlx would set is in `session`.
        let options =
            options.timezone(None).set_names(false).pipes_as_concat(false).no_engine_substitution(false);
        Server { options, info: CurrentInfo::new(describe(address, &Facts::default()), place) }
    }

    pub(super) fn info(&self) -> Arc<Info> {
        self.info.get()
    }

    fn learn(&self, facts: &Facts, id: Option<&str>) {
        self.info.learn(id, |info| describe(&info.server, facts));
    }

    /// Prepares a session, and finds out what the server is.
    async fn greet(&self, connection: &mut MySqlConnection, lock_wait: LockWait) -> sqlx::Result<Greeted> {
        ask(connection, &session(lock_wait)).await?;
        // A server may be configured so that SYSDATE stands still too. It then never shows a time after the statement's
        // beginning.
        let greeting = format!(
            "SELECT {ID} BENCHMARK(1000, RAND()), SYSDATE(6) = NOW(6) AS still, {NOW} AS now, \
             CAST(UTC_TIMESTAMP(6) = @onelock_began AS SIGNED) AS frozen, \
             CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED) AS flush, \
             CAST(@@GLOBAL.read_only AS SIGNED) AS read_only, \
             CAST(@@SESSION.innodb_lock_wait_timeout AS SIGNED) AS waits"
        );
        let answer = ask(connection, &greeting).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound)?;
        self.learn(&Facts::read(row)?, row.try_get("id").ok());
        let clock = match (row.try_get::<i64, _>("still")?, row.try_get::<i64, _>("frozen")?) {
            (0, 0) => SessionClock::Goes(row.try_get("now")?),
            (_, 0) => SessionClock::StandsInStatements,
            (_, _) => SessionClock::Stands,
        };
        Ok(Greeted { clock, waits: row.try_get::<i64, _>("waits")? != 0 })
    }
}

/// The properties that a session shows.
struct Greeted {
    clock: SessionClock,
    /// The server lets a statement wait for rows.
    waits: bool,
}

/// The clock that a session shows.
#[derive(Clone, Copy)]
enum SessionClock {
    /// The clock goes, and shows this time.
    Goes(i64),
    /// A statement reads the time at its beginning, however long it has waited since.
    StandsInStatements,
    /// Every statement reads the same time.
    Stands,
}

impl SessionClock {
    /// Returns the time. `Unsupported` if the clock stands still.
    fn now(self) -> Result<i64> {
        match self {
            SessionClock::Goes(now) => Ok(now),
            SessionClock::StandsInStatements => Err(Error::unsupported(
                "the server was started with sysdate-is-now, so that a statement that has waited can't read the \
                 current time; start the server without it",
            )),
            SessionClock::Stands => Err(Error::unsupported(
                "the session's clock was set and stands still; find and remove the SET timestamp, for example in the \
                 server's init_connect or in a proxy",
            )),
        }
    }
}

impl fmt::Debug for Server {
    /// Without the options, which would show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.info().server).finish()
    }
}

/// A session of the server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) connection: MySqlConnection,
    /// A statement that waits for no row has to find out first whether its row is locked, because the server would
    /// let it wait.
    finds_out: bool,
}

impl Dialect for Server {
    type Connection = Session;
    type Statement = Statement;
    type Row = MySqlRow;

    async fn connect(&self, lock_wait: LockWait) -> Result<Opened<Session>> {
        let mut connection = self.options.connect().await.map_err(errors::connecting)?;
        let Greeted { clock, waits } =
            self.greet(&mut connection, lock_wait).await.map_err(errors::connecting)?;
        let finds_out = waits && lock_wait == LockWait::Never;
        Ok(Opened { connection: Session { connection, finds_out }, now: clock.now()? })
    }

    async fn run(session: &mut Session, statement: Statement) -> sqlx::Result<Answer<MySqlRow>> {
        let Session { connection, finds_out } = session;
        let mut answer = match &statement.locks {
            Some(locks) if *finds_out => {
                let text =
                    format!("START TRANSACTION; {locks} FOR UPDATE NOWAIT; {}; COMMIT", statement.text);
                ask_in_transaction(connection, &text).await?
            }
            _ if statement.number == Number::None => {
                return match ask_in_transaction(connection, &statement.text).await {
                    // Rows that other transactions have locked were in the way.
                    Err(e) if errors::is_locked(&e) => Ok(Answer::default()),
                    outcome => outcome,
                };
            }
            _ => ask(connection, &statement.text).await?,
        };
        let number = answer.last_insert_id;
        match statement {
            Statement { otherwise: Some(otherwise), .. } if number == 0 => ask(connection, &otherwise).await,
            Statement { number: Number::NowAndOthers, .. } if number != 0 => {
                answer.now = i64::try_from(number / 2).ok();
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    fn trouble(error: sqlx::Error) -> Trouble {
        errors::trouble(error)
    }
}

/// Sends a transaction. If one of its statements fails, undoes the others.
async fn ask_in_transaction(connection: &mut MySqlConnection, text: &str) -> sqlx::Result<Answer<MySqlRow>> {
    let error = match ask(connection, text).await {
        Err(error) if error.as_database_error().is_some() => error,
        outcome => return outcome,
    };
    // The server has left the transaction open at the statement that failed.
    ask(connection, "ROLLBACK").await?;
    Err(error)
}

/// Sends statements, and reads the answers to their end. Returns the rows of the last one, and the number of the last one
/// that has put one into `LAST_INSERT_ID`.
async fn ask(connection: &mut MySqlConnection, text: &str) -> sqlx::Result<Answer<MySqlRow>> {
    let mut answer = Answer::default();
    let (mut parts, mut is_done) =
        (sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_many(connection), false);
    while let Some(part) = parts.try_next().await? {
        // What comes now is another statement's answer.
        if mem::take(&mut is_done) {
            answer.rows.clear();
        }
        match part {
            Either::Left(done) => {
                is_done = true;
                if done.last_insert_id() != 0 {
                    answer.last_insert_id = done.last_insert_id();
                }
            }
            Either::Right(row) => answer.rows.push(row),
        }
    }
    drop(parts);
    // A look shows the time in each of its rows.
    answer.now = answer.rows.first().and_then(|row| row.try_get("now").ok());
    Ok(answer)
}
