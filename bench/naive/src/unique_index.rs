//! MySQL: a row under a unique index. To lock, insert it; an error means that it is taken. To unlock, delete it.
//!
//! The text: "Comparison of common schemes for distributed locks" (on Redis locks and Redisson), first row.
//!
//! Flaws that the text names: T1 (no expiry: after a crash the row stays for ever), T2 (not reentrant, no blocking wait),
//! T3 (slow). Flaws that follow from it: the row does not say whose it is, so that a release deletes another's.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Context, Renewal, Request};
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Name, Result};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};

use crate::driver::{LONGEST, Recipe, SchemeDriver, busy, call, granted, held, info, lost};

pub(crate) const NAME: &str = "naive-unique-index";

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS naive_locks (name VARBINARY(640) NOT NULL, UNIQUE KEY (name))";
const INSERT: &str = "INSERT INTO naive_locks (name) VALUES (?)";
const DELETE: &str = "DELETE FROM naive_locks WHERE name = ?";
const SELECT: &str = "SELECT name FROM naive_locks WHERE name = ?";

/// As many as the library's own backend has.
const CONNECTIONS: u32 = 8;

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<UniqueIndex>> {
    let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(context.patience);
    let failed = |e| Error::unavailable(Effect::NotApplied, "MySQL can't be used").with_source(e);
    let pool = pool.connect(&url).await.map_err(failed)?;
    sqlx::query(TABLE).execute(&pool).await.map_err(failed)?;
    let mut info = info(NAME, &url, Duration::from_millis(10)..=LONGEST);
    info.clock = "none: a lock ends when it is released, and after a crash of its holder never";
    info.data_loss = "frees every lock; a release frees the lock of any holder".to_owned();
    Ok(SchemeDriver::new(UniqueIndex(pool), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct UniqueIndex(MySqlPool);

impl UniqueIndex {
    /// Runs a statement about one name. Returns how many rows it has changed, or the server's error.
    async fn change(&self, statement: &'static str, request: &Request) -> Result<sqlx::Result<u64>> {
        let (call, name) = (call(request), request.name.as_str().as_bytes());
        let query = sqlx::query(statement).bind(name).execute(&self.0);
        let done = call.within(query).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        Ok(done.map(|done| done.rows_affected()))
    }

    async fn row(&self, name: &Name, call: &Call) -> Result<Option<Vec<u8>>> {
        let query = sqlx::query_scalar(SELECT).bind(name.as_str().as_bytes()).fetch_optional(&self.0);
        call.within(query).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?.map_err(no_answer)
    }
}

fn no_answer(error: sqlx::Error) -> Error {
    Error::unavailable(Effect::Unknown, "MySQL did not answer").with_source(error)
}

#[async_trait]
impl Recipe for UniqueIndex {
    type State = ();

    async fn attempt(&self, request: &Request, (): &mut ()) -> Result<Attempt> {
        match self.change(INSERT, request).await? {
            Ok(_) => Ok(granted(request.ttl)),
            // Also what InnoDB calls a deadlock, which it finds between several inserts of the row that was deleted.
            Err(sqlx::Error::Database(_)) => Ok(busy()),
            Err(e) => Err(no_answer(e)),
        }
    }

    /// Nothing has to be renewed. There is a row, of this client or of another.
    async fn renew(&self, request: &Request, (): &mut (), ttl: Duration) -> Result<Renewal> {
        let row = self.row(&request.name, &call(request)).await?;
        Ok(row.map_or_else(lost, |_| held(ttl)))
    }

    async fn release(&self, request: &Request, (): &mut ()) -> Result<bool> {
        self.change(DELETE, request).await?.map(|deleted| deleted > 0).map_err(no_answer)
    }
}
