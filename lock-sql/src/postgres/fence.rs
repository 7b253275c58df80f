//! The check of fencing tokens for resources in a PostgreSQL database, in the user's own transaction.

use std::sync::Arc;

use lock_core::{Error, FencingToken};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::schema;
use crate::fence::{self, FenceError};
use crate::server::TableName;

/// A resource in the user's database that refuses the writes of a holder once a later holder has written.
///
/// The highest accepted token is kept in the table `public.onelock_fences` of that database, whatever the session's
/// search path is, or in the table that [`Fence::table`] names.
///
/// Call [`Fence::accept`] first in the transaction that writes. The check and the writes then take effect together or
/// not at all. The check locks the resource's row until the transaction ends, so that a later holder's transaction
/// waits, and an earlier holder's is refused. A token is accepted unless it is lower than the highest one, so that a
/// holder may write more than once. All tokens of one resource must be of one lock.
///
/// At the isolation level `repeatable read` or above, a check that had to wait for another transaction fails with the
/// server's error 40001. Roll back, and begin a new transaction.
///
/// ```no_run
/// # use lock_sql as onelock;
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::PgConnection)
/// #     -> Result<(), lock_sql::FenceError> {
/// use onelock::{postgres::Fence, sqlx::{self, Connection}};
/// Fence::create_table(&mut connection).await?; // once
/// let mut transaction = connection.begin().await?;
/// Fence::new("reports").accept(&mut transaction, guard.token()).await?;
/// sqlx::query("INSERT INTO reports VALUES (42)").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Fence {
    resource: Vec<u8>,
    accept: Arc<str>,
}

/// The table is named with its schema, because a session's search path may lead another user to another table.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS public.onelock_fences (
  resource bytea NOT NULL PRIMARY KEY,
  token bigint NOT NULL CHECK (token > 0)
)";

const TABLE: &str = "public.onelock_fences";

/// Finds a table of fences in another schema, if `public` has none. No new table is created beside one that has tokens.
const ELSEWHERE: &str = "
SELECT (SELECT n.nspname::text || '.' || c.relname::text
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relname = 'onelock_fences' AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    AND pg_catalog.to_regclass('public.onelock_fences') IS NULL
  ORDER BY 1 LIMIT 1)";

/// Writes in any case, so that every transaction that comes after it waits for the end of this one.
const ACCEPT: &str = "
INSERT INTO {table} AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = greatest(f.token, excluded.token) RETURNING token";

impl Fence {
    /// Creates the fence of `resource`.
    ///
    /// `resource` is any name for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        Fence { resource: resource.into(), accept: ACCEPT.replace("{table}", TABLE).into() }
    }

    /// Keeps the highest token in another table: `schema.table`, or `table` in the schema `public`.
    ///
    /// The table must exist already, with the columns that [`Fence::schema`] has. All writers to the resource must name
    /// the same table.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid), as [`Postgres::table`](super::Postgres::table) says.
    pub fn table(self, table: &str) -> Result<Fence, Error> {
        let table: TableName = schema::must_be_shared(table.parse()?)?;
        let table = schema::located(&table).quoted('"');
        Ok(Fence { accept: ACCEPT.replace("{table}", &table).into(), ..self })
    }

    /// Creates the table `public.onelock_fences` in the database, if it is missing.
    ///
    /// [`Fence::schema`] has the statement for users that create their tables by other means.
    ///
    /// # Errors
    ///
    /// [`FenceError::Sqlx`] if the database fails, or if another schema has a table of that name and `public` has none:
    /// that table holds tokens that a new table would not know. Move it (`ALTER TABLE other.onelock_fences SET SCHEMA
    /// public`), or name it by [`Fence::table`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the table may have been created all the same.
    pub async fn create_table(connection: &mut PgConnection) -> Result<(), FenceError> {
        let elsewhere: Option<String> = connection.fetch_one(ELSEWHERE).await?.try_get(0)?;
        if let Some(elsewhere) = elsewhere {
            let why = format!(
                "there is no table {TABLE}, but {elsewhere} may have the tokens of its resources: run ALTER TABLE \
                 {elsewhere} SET SCHEMA public, or name that table by Fence::table"
            );
            return Err(sqlx::Error::Configuration(why.into()).into());
        }
        connection.execute(CREATE).await?;
        Ok(())
    }

    /// Returns the statement that creates the table of fences, for users that create their tables by other means.
    pub fn schema() -> &'static str {
        CREATE
    }

    /// Returns the statement that [`accept`](Self::accept) runs, for transactions of another driver.
    ///
    /// `$1` is the name of the resource, a `bytea`; `$2` is the token, a `bigint`. The answer is one row with one column,
    /// a `bigint`: the highest token. If that is more than `$2`, the token is stale: roll the transaction back.
    ///
    /// ```
    /// # use lock_sql as onelock;
    /// use onelock::postgres::Fence;
    ///
    /// // With tokio-postgres:
    /// // let row = transaction.query_one(fence.statement(), &[&b"reports".as_slice(), &token]).await?;
    /// // if row.get::<_, i64>(0) > token { return Err(…) }
    /// let fence = Fence::new("reports");
    /// assert!(fence.statement().contains("public.onelock_fences"));
    /// ```
    pub fn statement(&self) -> &str {
        &self.accept
    }

    /// Accepts `token` in the transaction that `connection` is in, unless a higher one was accepted before.
    ///
    /// Outside a transaction, the answer only says what was true at that moment.
    ///
    /// # Errors
    ///
    /// - [`FenceError::Stale`]: a higher token was accepted before. Roll the transaction back.
    /// - [`FenceError::Sqlx`]: the database failed. It is an encoding error if the token is too large for a `bigint`.
    ///
    /// # Cancel safety
    ///
    /// As for sqlx: if the future is dropped, roll the transaction back.
    pub async fn accept(&self, connection: &mut PgConnection, token: FencingToken) -> Result<(), FenceError> {
        let accept = sqlx::query(AssertSqlSafe(self.accept.clone()))
            .bind(self.resource.clone())
            .bind(fence::to_column(token)?);
        // Reads the answer to its end: outside a transaction, the statement takes effect only there.
        let rows = accept.fetch_all(connection).await?;
        let highest: i64 = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        fence::judge(token, highest)
    }
}
