//! The resource's side of fencing, for what is kept in a PostgreSQL database: a check in the user's own transaction.

use std::sync::Arc;

use lock_core::{Error, FencingToken};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::schema;
use crate::fence::{self, FenceError};
use crate::server::TableName;

/// A resource in a database of the user's, which takes writes only from holders that nobody has come after.
///
/// The highest token that was accepted is kept in the table `public.onelock_fences` of that database, whatever the session's
/// search path is, or in another that [`Fence::table`] names. Checked first thing in
/// the transaction that writes, the check and the writes take effect together or not at all: the check locks the
/// resource's row until then, so that a later holder's transaction waits, and an earlier one's is refused. A token that
/// is not lower is accepted: a holder may write more than once. All tokens of one resource have to be of one lock.
///
/// At isolation level `repeatable read` or above a check that had to wait for another's transaction fails with the
/// server's error 40001: roll back, and begin anew.
///
/// ```no_run
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::PgConnection)
/// #     -> Result<(), lock_sql::FenceError> {
/// use lock_sql::{postgres::Fence, sqlx::{self, Connection}};
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

/// Found by its schema: where the session's search path leads is another place for another user.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS public.onelock_fences (
  resource bytea NOT NULL PRIMARY KEY,
  token bigint NOT NULL CHECK (token > 0)
)";

const TABLE: &str = "public.onelock_fences";

/// A table of fences in another schema, where `public` has none. It is not made anew beside one that has tokens.
const ELSEWHERE: &str = "
SELECT (SELECT n.nspname::text || '.' || c.relname::text
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relname = 'onelock_fences' AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    AND pg_catalog.to_regclass('public.onelock_fences') IS NULL
  ORDER BY 1 LIMIT 1)";

/// Writes in any case: whoever comes after it waits for the end of this transaction.
const ACCEPT: &str = "
INSERT INTO {table} AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = greatest(f.token, excluded.token) RETURNING token";

impl Fence {
    /// The fence of `resource`: any name that stands for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        Fence { resource: resource.into(), accept: ACCEPT.replace("{table}", TABLE).into() }
    }

    /// Keeps the highest token in another table, which was created beforehand with the columns that [`Fence::schema`] has:
    /// `schema.table`, or `table` in the schema `public`. All writers to the resource have to name the same. `Invalid` as
    /// [`Postgres::table`](super::Postgres::table) says.
    pub fn table(self, table: &str) -> Result<Fence, Error> {
        let table: TableName = schema::must_be_shared(table.parse()?)?;
        let table = schema::located(&table).quoted('"');
        Ok(Fence { accept: ACCEPT.replace("{table}", &table).into(), ..self })
    }

    /// Creates the table `public.onelock_fences` in the database, if it isn't there. Or have it created with the others, as
    /// [`Fence::schema`] says.
    ///
    /// An error if another schema has a table of that name and `public` has none: in it are tokens that a new table would
    /// not know of. Move it there (`ALTER TABLE other.onelock_fences SET SCHEMA public`), or name it.
    pub async fn create_table(connection: &mut PgConnection) -> Result<(), FenceError> {
        let elsewhere: Option<String> = connection.fetch_one(ELSEWHERE).await?.try_get(0)?;
        if let Some(elsewhere) = elsewhere {
            let why = format!(
                "there is no table {TABLE}, and {elsewhere} may have the tokens of its resources: ALTER TABLE {elsewhere} SET \
                 SCHEMA public, or name it by Fence::table"
            );
            return Err(sqlx::Error::Configuration(why.into()).into());
        }
        connection.execute(CREATE).await?;
        Ok(())
    }

    /// The statement that creates the table of fences, for those who create tables elsewhere.
    pub fn schema() -> &'static str {
        CREATE
    }

    /// Accepts `token` in the transaction that `connection` is in, unless a later one was accepted before: then
    /// [`FenceError::Stale`], and the transaction is to be rolled back.
    ///
    /// Outside a transaction it only says how things stood. Cancel safe as sqlx is: roll the transaction back.
    pub async fn accept(&self, connection: &mut PgConnection, token: FencingToken) -> Result<(), FenceError> {
        let accept = sqlx::query(AssertSqlSafe(self.accept.clone()))
            .bind(self.resource.clone())
            .bind(fence::to_column(token)?);
        // To its last step: outside a transaction it takes effect only there.
        let rows = accept.fetch_all(connection).await?;
        let highest: i64 = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        fence::judge(token, highest)
    }
}
