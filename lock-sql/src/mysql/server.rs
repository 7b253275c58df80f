//! A MySQL or MariaDB server: how to connect, and to run a statement.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::TryStreamExt;
use lock_core::{Error, Info, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Either, Row};

use super::errors;
use super::facts::Facts;
use super::info::describe;
use super::statements::{NOW, Number, Statement};
use crate::server::{Answer, Dialect, Opened, Trouble};

/// A server that connections are opened to.
pub(crate) struct Server {
    options: MySqlConnectOptions,
    /// What the last connection found.
    info: RwLock<Arc<Info>>,
}

/// What our statements take for granted, whatever the server's defaults are: each is a transaction of its own, waits for
/// nobody's lock for longer than a second, and reads the clock in UTC; what doesn't fit is an error; a connection lives for
/// longer than the pool keeps an idle one.
const SESSION: &str = "SET autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, \
     wait_timeout = 60, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', NAMES utf8mb4";

impl Server {
    pub(super) fn new(options: MySqlConnectOptions, address: &str) -> Server {
        // All that sqlx would set is in SESSION.
        let options =
            options.timezone(None).set_names(false).pipes_as_concat(false).no_engine_substitution(false);
        Server { options, info: RwLock::new(Arc::new(describe(address, &Facts::default()))) }
    }

    pub(super) fn info(&self) -> Arc<Info> {
        self.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, facts: &Facts) {
        let mut info = self.info.write().unwrap_or_else(PoisonError::into_inner);
        *info = Arc::new(describe(&info.server, facts));
    }

    async fn greet(&self, connection: &mut MySqlConnection) -> sqlx::Result<Result<i64>> {
        ask(connection, SESSION).await?;
        // A server may be told to let SYSDATE stand still too: then it shows no time behind the statement's beginning.
        let greeting = format!(
            "SELECT BENCHMARK(1000, RAND()), SYSDATE(6) = NOW(6) AS still, {NOW} AS now, \
             CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED) AS flush, \
             CAST(@@GLOBAL.read_only AS SIGNED) AS read_only"
        );
        let answer = ask(connection, &greeting).await?;
        let row = answer.rows.first().ok_or(sqlx::Error::RowNotFound)?;
        self.learn(&Facts::read(row)?);
        Ok(match row.try_get::<i64, _>("still")? {
            0 => Ok(row.try_get("now")?),
            _ => Err(Error::unsupported(
                "the server was started with sysdate-is-now, and shows no statement what time it is when it has \
                 waited: start it without",
            )),
        })
    }
}

impl fmt::Debug for Server {
    /// Without the options: they show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.info().server).finish()
    }
}

impl Dialect for Server {
    type Connection = MySqlConnection;
    type Statement = Statement;
    type Row = MySqlRow;

    async fn connect(&self) -> Result<Opened<MySqlConnection>> {
        let mut connection = self.options.connect().await.map_err(errors::connecting)?;
        let now = self.greet(&mut connection).await.map_err(errors::connecting)??;
        Ok(Opened { connection, now })
    }

    async fn run(connection: &mut MySqlConnection, statement: Statement) -> sqlx::Result<Answer<MySqlRow>> {
        let mut answer = ask(connection, &statement.text).await?;
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

/// Asks for one statement, and reads its answer to the end.
async fn ask(connection: &mut MySqlConnection, text: &str) -> sqlx::Result<Answer<MySqlRow>> {
    let mut answer = Answer { rows: Vec::new(), last_insert_id: 0, now: None };
    let mut parts = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_many(connection);
    while let Some(part) = parts.try_next().await? {
        match part {
            Either::Left(done) => answer.last_insert_id = done.last_insert_id(),
            Either::Right(row) => answer.rows.push(row),
        }
    }
    drop(parts);
    // A look shows the time in each of its rows.
    answer.now = answer.rows.first().and_then(|row| row.try_get("now").ok());
    Ok(answer)
}
