//! The check of fencing tokens for resources in a MySQL or MariaDB database, in the user's own transaction.

use std::sync::Arc;

use lock_core::{Error, FencingToken};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor};

use super::statements::Hex;
use crate::fence::{self, FenceError};
use crate::server::TableName;

/// A resource in the user's database that refuses the writes of a holder once a later holder has written.
///
/// The highest accepted token is kept in the table `onelock_fences` of the database that the session is in, or in the
/// table that [`Fence::table`] names, whatever database the session is in.
///
/// Call [`Fence::accept`] first in the transaction that writes. The check and the writes then take effect together or
/// not at all, and no later holder's transaction comes in between, because the check locks the resource's row until the
/// transaction ends. A token is accepted unless it is lower than the highest one, so that a holder may write more than
/// once. All tokens of one resource must be of one lock.
///
/// ```
/// # use lock_sql as onelock;
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::MySqlConnection)
/// #     -> Result<(), lock_sql::FenceError> {
/// use onelock::{mysql::Fence, sqlx::{self, Connection}};
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
    /// The table's name as SQL text.
    table: Arc<str>,
    /// The statement for another driver.
    statement: Arc<str>,
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS onelock_fences (
  resource VARBINARY(640) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL
) ENGINE=InnoDB COMMENT='onelock fences 1'";

/// The longest name of a resource, in bytes. The server would truncate a longer one without an error if the session's
/// `sql_mode` is not strict.
const LONGEST: usize = 640;

/// Returns the statement with a place for each value. Ours has no places, because a text needs one round trip, and a
/// prepared statement two.
fn prepared(table: &str) -> String {
    format!(
        "INSERT INTO {table} (resource, token) VALUES (?, LAST_INSERT_ID(?)) \
         ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))"
    )
}

impl Fence {
    /// Creates the fence of `resource`.
    ///
    /// `resource` is any name, of at most 640 bytes, for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        let table = "onelock_fences";
        Fence { resource: resource.into(), table: table.into(), statement: prepared(table).into() }
    }

    /// Keeps the highest token in another table, `database.table`.
    ///
    /// The table must exist already, with the columns that [`Fence::schema`] has. All writers to the resource must name
    /// the same table.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid), as [`MySql::table`](super::MySql::table) says.
    pub fn table(self, table: &str) -> Result<Fence, Error> {
        let table: TableName = table.parse()?;
        let table = table.quoted('`');
        Ok(Fence { statement: prepared(&table).into(), table: table.into(), ..self })
    }

    /// Creates the table of fences in the session's database, if it is missing.
    ///
    /// Like every `CREATE TABLE`, this commits an open transaction. [`Fence::schema`] has the statement for users that
    /// create their tables by other means.
    ///
    /// # Errors
    ///
    /// [`FenceError::Sqlx`] if the database fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the table may have been created all the same.
    pub async fn create_table(connection: &mut MySqlConnection) -> Result<(), FenceError> {
        connection.execute(CREATE).await?;
        Ok(())
    }

    /// Returns the statement that creates the table of fences, for users that create their tables by other means.
    pub fn schema() -> &'static str {
        CREATE
    }

    /// Returns a statement that does the same as [`accept`](Self::accept), for transactions of another driver.
    ///
    /// The first `?` is the name of the resource, of at most 640 bytes; the second and the third are both the token, a
    /// `BIGINT`. The highest token is then the session's `LAST_INSERT_ID()`, which drivers return with the answer. If
    /// that is more than the token, the token is stale: roll the transaction back.
    ///
    /// ```
    /// # use lock_sql as onelock;
    /// use onelock::mysql::Fence;
    ///
    /// // With mysql_async:
    /// // transaction.exec_drop(fence.statement(), ("reports", token, token)).await?;
    /// // if transaction.last_insert_id() > Some(token) { return Err(…) }
    /// let fence = Fence::new("reports");
    /// assert!(fence.statement().contains("onelock_fences"));
    /// ```
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Accepts `token` in the transaction that `connection` is in, unless a higher one was accepted before.
    ///
    /// Outside a transaction, the answer only says what was true at that moment. The call sets the session's
    /// `LAST_INSERT_ID()`.
    ///
    /// # Errors
    ///
    /// - [`FenceError::Stale`]: a higher token was accepted before. Roll the transaction back.
    /// - [`FenceError::Sqlx`]: the database failed. It is an encoding error if the name of the resource has more than
    ///   640 bytes, or if the token is too large for a `BIGINT`.
    ///
    /// # Cancel safety
    ///
    /// As for sqlx: if the future is dropped, roll the transaction back.
    pub async fn accept(
        &self,
        connection: &mut MySqlConnection,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        if self.resource.len() > LONGEST {
            let why = format!("the name of a fence's resource has at most {LONGEST} bytes");
            return Err(sqlx::Error::Encode(why.into()).into());
        }
        let (table, resource, offered) = (&self.table, Hex(&self.resource), fence::to_column(token)?);
        let accept = format!(
            "INSERT INTO {table} (resource, token) VALUES ({resource}, LAST_INSERT_ID({offered})) \
             ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, {offered}))"
        );
        let done = sqlx::raw_sql(AssertSqlSafe(accept)).execute(connection).await?;
        fence::judge(token, i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX))
    }
}
