//! A claim that waits. Nobody wakes it; but its row says that somebody waits, so that a process which hands the lock over
//! to its own tasks lets others have their turns, and pauses for nothing where there are none.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::Call;
use lock_core::{Instant, Result};
use sqlx::Row as _;

use super::errors;
use super::server::Server;
use super::statements::Statements;
use crate::server::{Pool, Purpose, left};
use crate::table::{Key, Listener};

/// How long a mark lasts. It is not taken back: others may wait too.
const MARK: Duration = Duration::from_secs(30);
/// How old it may grow before it is left again.
const FRESH: Duration = Duration::from_secs(15);

/// A claim that waits, and the mark that says so.
#[derive(Debug)]
pub(super) struct Waiter {
    pool: Pool<Server>,
    statements: Statements,
    key: Key,
    /// When it last looked after its mark.
    marked: Mutex<Option<Instant>>,
}

impl Waiter {
    pub(super) fn new(pool: Pool<Server>, statements: Statements, key: Key) -> Waiter {
        Waiter { pool, statements, key, marked: Mutex::new(None) }
    }

    /// Leaves the mark, unless another has: a hundred waiters that all wrote would stand in the way of a renewal.
    pub(super) async fn mark(&self, call: &Call) -> Result<()> {
        let (statements, key) = (self.statements.clone(), self.key.clone());
        let look = move |_| statements.waiting(&key);
        let answer = self.pool.ask(call, Purpose::Enter, look).await.map_err(errors::harmless)?;
        let waiting = answer.rows.first().map(|row| row.try_get("waiting")).transpose();
        let lasts = left(waiting.map_err(errors::reading)?.unwrap_or(0)).unwrap_or_default();
        if lasts < FRESH {
            let (statements, key) = (self.statements.clone(), self.key.clone());
            self.pool.ask(call, Purpose::Enter, move |_| statements.mark(&key, MARK)).await?;
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

    async fn go_on(&self, call: &Call) {
        if !self.is_fresh(call.began()) {
            // Without it the process that holds the lock keeps it longer than it would: no more.
            self.mark(call).await.ok();
        }
    }
}
