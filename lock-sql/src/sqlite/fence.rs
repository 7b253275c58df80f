//! The check of fencing tokens for resources in a SQLite database, in the user's own transaction.

use lock_core::FencingToken;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};

use crate::fence::{self, FenceError};

/// A resource in the user's database that refuses the writes of a holder once a later holder has written.
///
/// The highest accepted token is kept in the table `onelock_fences` of that database.
///
/// Call [`Fence::accept`] first in the transaction that writes. The check and the writes then take effect together or
/// not at all, and no later holder's transaction comes in between, because the check itself writes. A token is accepted
/// unless it is lower than the highest one, so that a holder may write more than once. All tokens of one resource must
/// be of one lock.
///
/// ```
/// # use lock_sql as onelock;
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::SqliteConnection)
/// #     -> Result<(), lock_sql::sqlite::FenceError> {
/// use onelock::{sqlite::Fence, sqlx::{self, Connection}};
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
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS onelock_fences (
  resource BLOB NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (token > 0)
) STRICT, WITHOUT ROWID";

/// Writes in any case, so that the transaction has the right to write from here on.
const ACCEPT: &str = "
INSERT INTO onelock_fences AS f (resource, token) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET token = max(f.token, ?2) RETURNING token";

impl Fence {
    /// Creates the fence of `resource`.
    ///
    /// `resource` is any name for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        Fence { resource: resource.into() }
    }

    /// Creates the table of fences in the database, if it is missing.
    ///
    /// [`Fence::schema`] has the statement for users that create their tables by other means.
    ///
    /// # Errors
    ///
    /// [`FenceError::Sqlx`] if the database fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the table may have been created all the same.
    pub async fn create_table(connection: &mut SqliteConnection) -> Result<(), FenceError> {
        connection.execute(CREATE).await?;
        Ok(())
    }

    /// Returns the statement that creates the table of fences, for users that create their tables by other means.
    pub fn schema() -> &'static str {
        CREATE
    }

    /// Returns the statement that [`accept`](Self::accept) runs, for transactions of another driver.
    ///
    /// `?1` is the name of the resource, a blob; `?2` is the token, an integer. The answer is one row with one column, an
    /// integer: the highest token. If that is more than `?2`, the token is stale: roll the transaction back.
    ///
    /// ```
    /// # use lock_sql as onelock;
    /// use onelock::sqlite::Fence;
    ///
    /// // With diesel:
    /// // let accept = sql_query(fence.statement()).bind::<Binary, _>(b"reports").bind::<BigInt, _>(token);
    /// // if accept.get_result::<Highest>(connection)?.token > token { return Err(…) }
    /// let fence = Fence::new("reports");
    /// assert!(fence.statement().contains("onelock_fences"));
    /// ```
    pub fn statement(&self) -> &str {
        ACCEPT
    }

    /// Accepts `token` in the transaction that `connection` is in, unless a higher one was accepted before.
    ///
    /// Outside a transaction, the answer only says what was true at that moment.
    ///
    /// # Errors
    ///
    /// - [`FenceError::Stale`]: a higher token was accepted before. Roll the transaction back.
    /// - [`FenceError::Sqlx`]: the database failed. It is an encoding error if the token is too large for an integer of
    ///   64 bits with a sign.
    ///
    /// # Cancel safety
    ///
    /// As for sqlx: if the future is dropped, roll the transaction back.
    pub async fn accept(
        &self,
        connection: &mut SqliteConnection,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        let accept = sqlx::query(ACCEPT).bind(self.resource.clone()).bind(fence::to_column(token)?);
        // Reads the answer to its end: outside a transaction, the statement takes effect only there.
        let rows = accept.fetch_all(connection).await?;
        let highest: i64 = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        fence::judge(token, highest)
    }
}
