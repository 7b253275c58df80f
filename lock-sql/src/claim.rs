//! A claim: one owner's business with one row.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Busy, Cause, Claim, Grant, Release, Renewal, Request};
use lock_core::{Error, FencingToken, Result};

use crate::sqlite::{Call, Listener, Row, Table, Taken};

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct SqlClaim {
    table: Arc<Table>,
    request: Request,
    /// What the row is found by: the prefix and the name.
    key: Arc<[u8]>,
    listening: Option<Listener>,
}

impl SqlClaim {
    pub(crate) fn new(table: Arc<Table>, request: Request) -> SqlClaim {
        let key = table.key(&request.name);
        SqlClaim { table, request, key, listening: None }
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Why the lock is no longer this owner's.
    async fn cause(&self, call: &Call) -> Result<Cause> {
        Ok(match self.table.look(call, &self.key).await? {
            Some(row) if row.was_revoked_from(&self.request.owner) => Cause::Revoked,
            Some(Row { left: Some(_), .. }) => Cause::Taken,
            _ => Cause::Gone,
        })
    }
}

#[async_trait]
impl Claim for SqlClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        let held = self.table.look(&call, &self.key).await?;
        if let Some(Row { left: Some(left), owner, .. }) = held
            && owner != self.request.owner.as_bytes()
        {
            return Ok(Attempt::Busy(Busy { queued: false, free_in: Some(left) }));
        }
        match self.table.take(&call, &self.key, &self.request).await? {
            Some(Taken { token, left }) => {
                // What wakes a holder is missed by a waiter.
                self.listening = None;
                let token = u64::try_from(token).ok().and_then(FencingToken::new);
                let token =
                    token.ok_or_else(|| Error::rejected("the lock's row holds an impossible token"))?;
                Ok(Attempt::Granted(Grant { token, valid_for: left }))
            }
            // Somebody else was faster.
            None => Ok(Attempt::Busy(Busy::default())),
        }
    }

    async fn listen(&mut self) -> Result<()> {
        self.listening = Some(self.table.wakes().listen(&self.request.name));
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        match self.table.renew(&call, &self.key, &self.request.owner, ttl).await? {
            Some(left) => Ok(Renewal::Held { valid_for: left }),
            None => Ok(Renewal::Lost(self.cause(&call).await?)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let was_held = self.table.release(&self.call(), &self.key, &self.request.owner).await?;
        let wakes = self.table.wakes();
        // Also if nothing was held: a release before this one may have done it, and nobody heard of it.
        wakes.wake(self.request.name.as_str());
        Ok(match was_held {
            true => Release::Released { others: wakes.others(self.request.name.as_str()) },
            false => Release::NotHeld,
        })
    }
}
