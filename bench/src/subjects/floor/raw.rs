//! What a floor does with one name, on whichever server: take, release, and wait to be told.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Outcome;
use crate::subjects::{Side, Worker};

/// The raw driver's calls for one name.
#[async_trait]
pub(super) trait Calls: Send + Sync + 'static {
    /// What one acquisition has of its own, down to its release: the owner, for one.
    type Claim: Send;

    async fn claim(&self) -> Outcome<Self::Claim>;

    /// Whether it was granted.
    async fn take(&self, claim: &mut Self::Claim) -> Outcome<bool>;

    /// Leaves word that it waits, where a release tells only those who do. Older than the look behind it.
    async fn mark(&self) -> Outcome<()> {
        Ok(())
    }

    /// An error if it was not held.
    async fn release(&self, claim: &mut Self::Claim) -> Outcome<()>;
}

/// What tells of releases.
#[async_trait]
pub(super) trait Pushes: Send {
    /// The next one of the name.
    async fn next(&mut self) -> Outcome<()>;
}

/// A task's business with the name.
pub(super) struct Cycles<C>(pub(super) Arc<C>);

#[async_trait]
impl<C: Calls> Worker for Cycles<C> {
    /// In a task of its own, as every acquisition of the library has one.
    async fn cycle(&mut self) -> Outcome<()> {
        let calls = self.0.clone();
        let cycle = tokio::spawn(async move {
            let mut claim = calls.claim().await?;
            if !calls.take(&mut claim).await? {
                return Err("somebody else holds the floor's lock".into());
            }
            calls.release(&mut claim).await
        });
        cycle.await?
    }
}

/// A process' business with the name.
pub(super) struct Holder<C: Calls> {
    calls: Arc<C>,
    /// Older than the first look: no release goes by unnoticed.
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
