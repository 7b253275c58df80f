//! A claim that waits. The server can't wake it, but the lock's row says that a client waits. So a process that hands
//! the lock over between its own tasks lets other clients have their turns, and doesn't pause for others where there
//! are none.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::toolkit::Call;
use lock_core::{Error, Instant, Result};
use sqlx::Row as _;

use super::errors;
use super::server::Server;
use super::statements::Statements;
use crate::server::{Pool, Purpose, left};
use crate::table::{Key, Listener};

/// The time for which a mark lasts. The waiter doesn't remove it, because other claims may wait too.
const MARK: Duration = Duration::from_secs(30);
/// The age that a mark may reach before it is written again.
const FRESH: Duration = Duration::from_secs(15);

/// A claim that waits, and the mark that shows it.
#[derive(Debug)]
pub(super) struct Waiter {
    pool: Pool<Server>,
    statements: Statements,
    key: Key,
    /// When the claim last checked its mark.
    marked: Mutex<Option<Instant>>,
}

impl Waiter {
    pub(super) fn new(pool: Pool<Server>, statements: Statements, key: Key) -> Waiter {
        Waiter { pool, statements, key, marked: Mutex::new(None) }
    }

    /// Writes the mark, unless another waiter has written it. If a hundred waiters all wrote, they would delay a
    /// renewal.
    pub(super) async fn mark(&self, call: &Call) -> Result<()> {
        let (statements, key) = (self.statements.clone(), self.key.clone());
        let look = move |_| statements.waiting(&key);
        let answer = self.pool.ask(call, Purpose::Acquire, look).await.map_err(Error::not_applied)?;
        let waiting = answer.rows.first().map(|row| row.try_get("waiting")).transpose();
        let lasts = left(waiting.map_err(errors::reading)?.unwrap_or(0)).unwrap_or_default();
        if lasts < FRESH {
            let (statements, key) = (self.statements.clone(), self.key.clone());
            self.pool.ask(call, Purpose::Acquire, move |_| statements.mark(&key, MARK)).await?;
        }
        *self.marked.lock().unwrap_or_else(PoisonError::into_inner) = Some(call.began());
        Ok(())
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let marked = *self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        marked.is_some_and(|at| now.since(at) < FRESH)
    }
}

#[async_trait]
impl Listener for Waiter {
    async fn woken(&self) {
        std::future::pending::<()>().await;
    }

    async fn refresh_mark(&self, call: &Call) {
        if !self.is_fresh(call.began()) {
            // Without the mark, the process that holds the lock may keep it longer. That is the only effect.
            self.mark(call).await.ok();
        }
    }
}
