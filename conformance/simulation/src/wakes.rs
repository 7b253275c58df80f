//! Histories in which pushes alone wake waiters. A lost wake-up is visible in them, because the waiter's own next look,
//! which would make up for it, is seconds away.
//!
//! The core looks again when the lease that it saw would end. The claims here don't tell it when that is.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Driver, Finding, Inspection, Predecessor, Release, Renewal, Request, Revocation,
    Revoked, Takeover, Watched,
};
use lock_core::{Info, Name, Result};

use super::families::Family;
use super::rules::WakesBy;

/// A driver whose claims tell the core when a lease ends, or hide it if pushes alone wake waiters.
#[derive(Debug)]
pub(super) struct LeaseHiding<S, D> {
    driver: D,
    wakes: WakesBy,
    server: PhantomData<fn() -> S>,
}

impl<S: Family, D: Driver> LeaseHiding<S, D> {
    pub(super) fn new(driver: D, wakes: WakesBy) -> LeaseHiding<S, D> {
        LeaseHiding { driver, wakes, server: PhantomData }
    }
}

#[async_trait]
impl<S: Family, D: Driver> Driver for LeaseHiding<S, D> {
    fn info(&self) -> Arc<Info> {
        self.driver.info()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let claim = self.driver.claim(request);
        match self.wakes {
            WakesBy::PushesAndLooks => claim,
            WakesBy::PushesAlone => Box::new(Silent { claim, shows_a_lease: S::shows_a_lease }),
        }
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        self.driver.inspect(name, patience).await
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        self.driver.revoke(name, revocation).await
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.driver.check(patience).await
    }
}

/// A claim that doesn't tell when the lease that it met ends.
#[derive(Debug)]
struct Silent {
    claim: Box<dyn Claim>,
    shows_a_lease: fn(&Busy) -> bool,
}

#[async_trait]
impl Claim for Silent {
    async fn attempt(&mut self) -> Result<Attempt> {
        Ok(match self.claim.attempt().await? {
            Attempt::Busy(busy) if (self.shows_a_lease)(&busy) => Attempt::Busy(busy.with_free_in(None)),
            outcome => outcome,
        })
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        self.claim.take_over(predecessor).await
    }

    async fn listen(&mut self) -> Result<()> {
        self.claim.listen().await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }

    async fn watch(&mut self) -> Result<Watched> {
        self.claim.watch().await
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.claim.renew(ttl).await
    }

    async fn release(&mut self) -> Result<Release> {
        self.claim.release().await
    }
}
