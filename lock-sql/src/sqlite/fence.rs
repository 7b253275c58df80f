//! The resource's side of fencing, for what is kept in a SQLite database: a check in the user's own transaction.

use lock_core::{FencingToken, Stale};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};

/// A resource in a database of the user's, which takes writes only from holders that nobody has come after.
///
/// The highest token that was accepted is kept in the table `onelock_fences` of that database. Checked first thing in
/// the transaction that writes, the check and the writes take effect together or not at all, and no later holder's
/// transaction comes in between: the check itself writes. A token that is not lower is accepted: a holder may write
/// more than once. All tokens of one resource have to be of one lock.
///
/// ```
/// # async fn example(guard: lock_core::Guard, mut connection: lock_sql::sqlx::SqliteConnection)
/// #     -> Result<(), lock_sql::sqlite::FenceError> {
/// use lock_sql::{sqlite::Fence, sqlx::{self, Connection}};
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

/// Why a token was not accepted, or may not have been.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder has written: the lock was lost in the meantime. Roll the transaction back.
    Stale(Stale),
    /// The database failed.
    Sqlx(sqlx::Error),
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
    /// The fence of `resource`: any name that stands for what is written.
    pub fn new(resource: impl Into<Vec<u8>>) -> Fence {
        Fence { resource: resource.into() }
    }

    /// Creates the table of fences in the database, if it isn't there. Or have it created with the others, as
    /// [`Fence::schema`] says.
    pub async fn create_table(connection: &mut SqliteConnection) -> Result<(), FenceError> {
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
    pub async fn accept(
        &self,
        connection: &mut SqliteConnection,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        let offered = i64::try_from(token.get()).map_err(|e| sqlx::Error::Encode(e.into()))?;
        let accept = sqlx::query(ACCEPT).bind(self.resource.clone()).bind(offered);
        // To its last step: outside a transaction it takes effect only there.
        let rows = accept.fetch_all(connection).await?;
        let highest: i64 = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        match u64::try_from(highest).ok().and_then(FencingToken::new) {
            Some(highest) if highest > token => Err(FenceError::Stale(Stale { offered: token, highest })),
            _ => Ok(()),
        }
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> FenceError {
        FenceError::Sqlx(error)
    }
}

impl std::fmt::Display for FenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FenceError::Stale(stale) => stale.fmt(f),
            FenceError::Sqlx(error) => write!(f, "the fence could not be checked: {error}"),
        }
    }
}

impl std::error::Error for FenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FenceError::Stale(stale) => Some(stale),
            FenceError::Sqlx(error) => Some(error),
        }
    }
}
