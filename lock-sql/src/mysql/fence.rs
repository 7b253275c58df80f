//! The resource's side of fencing, for what is kept in a MySQL or MariaDB database: a check in the user's own transaction.

use std::sync::Arc;

use lock_core::{Error, FencingToken};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor};

use super::statements::Hex;
use crate::fence::{self, FenceError};
use crate::server::TableName;

/// A resource in a database of the user's, which takes writes only from holders that nobody has come after.
///
/// The highest token that was accepted is kept in the table `onelock_fences` of the database that the session is in, or in
/// one that [`Fence::table`] names, whichever that is. Checked first thing in
/// the transaction that writes, the check and the writes take effect together or not at all, and no later holder's
/// transaction comes in between: the check locks the resource's row until the transaction ends. A token that is not lower
/// is accepted: a holder may write more than once. All tokens of one resource have to be of one lock.
///
/// ```
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::MySqlConnection)
/// #     -> Result<(), lock_sql::FenceError> {
/// use lock_sql::{mysql::Fence, sqlx::{self, Connection}};
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
    /// As it stands in SQL.
    table: Arc<str>,
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS onelock_fences (
  resource VARBINARY(640) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL
) ENGINE=InnoDB COMMENT='onelock fences 1'";

/// More would be cut off without a word where the session's `sql_mode` is not strict.
const LONGEST: usize = 640;

impl Fence {
    /// The fence of `resource`: any name of up to 640 bytes that stands for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        Fence { resource: resource.into(), table: "onelock_fences".into() }
    }

    /// Keeps the highest token in another table, which was created beforehand with the columns that [`Fence::schema`] has:
    /// `database.table`. All writers to the resource have to name the same. `Invalid` as
    /// [`MySql::table`](super::MySql::table) says.
    pub fn table(self, table: &str) -> Result<Fence, Error> {
        let table: TableName = table.parse()?;
        Ok(Fence { table: table.quoted('`').into(), ..self })
    }

    /// Creates the table of fences in the database, if it isn't there. As every `CREATE TABLE` it commits a transaction
    /// that is open. Or have it created with the others, as [`Fence::schema`] says.
    pub async fn create_table(connection: &mut MySqlConnection) -> Result<(), FenceError> {
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
    /// Outside a transaction it only says how things stood. It sets the session's `LAST_INSERT_ID()`. A resource of more
    /// than 640 bytes is an error of encoding. Cancel safe as sqlx is: roll the transaction back.
    pub async fn accept(
        &self,
        connection: &mut MySqlConnection,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        if self.resource.len() > LONGEST {
            let why = format!("the name of a fence's resource has up to {LONGEST} bytes");
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
