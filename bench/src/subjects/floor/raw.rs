//! What a floor does with one name, on any server: it takes the lock, releases it, and waits to be notified.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Outcome;
use crate::subjects::{Side, Worker};

/// The raw driver's calls for one name.
#[async_trait]
pub(super) trait Calls: Send + Sync + 'static {
    /// The state of one acquisition until its release, such as its owner.
    type Claim: Send;

    async fn claim(&self) -> Outcome<Self::Claim>;

    /// Attempts to take the lock, and returns whether it was granted.
    async fn take(&self, claim: &mut Self::Claim) -> Outcome<bool>;

    /// Marks that a client waits, where a release notifies only waiters that have done so. Has to come before the look
    /// that follows it.
    async fn mark(&self) -> Outcome<()> {
        Ok(())
    }

    /// Releases the lock. Fails if it was not held.
    async fn release(&self, claim: &mut Self::Claim) -> Outcome<()>;
}

/// Notifications of releases.
#[async_trait]
pub(super) trait Pushes: Send {
    /// Waits for the next release of the name.
    async fn next(&mut self) -> Outcome<()>;
}

/// What a task does with the name.
pub(super) struct Cycles<C>(pub(super) Arc<C>);

#[async_trait]
impl<C: Calls> Worker for Cycles<C> {
    /// Runs in a task of its own, as every acquisition of the library does.
    async fn cycle(&mut self) -> Outcome<()> {
        let calls = self.0.clone();
        let cycle = tokio::spawn(async move {
            let mut claim = calls.claim().await?;
            if !calls.take(&mut claim).await? {
                return Err("another client holds the floor's lock".into());
            }
            calls.release(&mut claim).await
        });
        cycle.await?
    }
}

/// What a process does with the name.
pub(super) struct Holder<C: Calls> {
    calls: Arc<C>,
    /// Subscribed before the first look, so that no release is missed.
    pushes: Box<dyn Pushes>,
    holds: Option<C::Claim>,
}

impl<C: Calls> Holder<C> {
    pub(super) fn new(calls: Arc<C>, pushes: Box<dyn Pushes>) -> Holder<C> {
        Holder { calls, pushes, holds: None }
    }
}

#[async_trait]
impl<C: Calls> Side for Holder<C> {
    async fn acquire(&mut self) -> Outcome<()> {
        let mut claim = self.calls.claim().await?;
        if !self.calls.take(&mut claim).await? {
            self.calls.mark().await?;
            while !self.calls.take(&mut claim).await? {
                self.pushes.next().await?;
            }
        }
        self.holds = Some(claim);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.holds.take() {
            Some(mut claim) => self.calls.release(&mut claim).await,
            None => Ok(()),
        }
    }
}

/// One side that finds the name free, and has nothing to wait with.
pub(super) struct Alone<C: Calls> {
    calls: Arc<C>,
    holds: Option<C::Claim>,
}

impl<C: Calls> Alone<C> {
    pub(super) fn new(calls: Arc<C>) -> Alone<C> {
        Alone { calls, holds: None }
    }
}

#[async_trait]
impl<C: Calls> Side for Alone<C> {
    async fn acquire(&mut self) -> Outcome<()> {
        let mut claim = self.calls.claim().await?;
        if !self.calls.take(&mut claim).await? {
            return Err("another client holds the floor's lock".into());
        }
        self.holds = Some(claim);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.holds.take() {
            Some(mut claim) => self.calls.release(&mut claim).await,
            None => Ok(()),
        }
    }
}
