//! The driver on a server in memory, in virtual time.

mod deadlines;
mod leases;
mod opening;
mod releases;
mod revokes;
mod rows;
mod shelf;

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::driver::{Attempt, Busy, Grant, Release, Renewal};
use crate::ending::LossReason;
use crate::error::ErrorKind;
use crate::owner::{Label, Owner};
use crate::random::{Random, RandomSource};
use shelf::{Fault, Shelf, TRIP, Tells};

const PATIENCE: Duration = ms(800);
const TTL: Duration = Duration::from_secs(10);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A client of the server.
struct Us(RegisterDriver<Shelf>);

impl Us {
    fn on(shelf: &Shelf) -> Us {
        Us(RegisterDriver::new(shelf.clone(), shelf.clock.clone()))
    }

    fn claim(&self) -> Box<dyn Claim> {
        self.claim_for(TTL)
    }

    /// A claim to the lock `a`, by an owner of its own.
    fn claim_for(&self, ttl: Duration) -> Box<dyn Claim> {
        let mut request = Request::new(a(), mint(), ttl, PATIENCE, self.0.clock.clone());
        request.label = Label::new("some program");
        self.0.claim(request)
    }

    async fn holder(&self) -> Option<crate::entry::Entry> {
        self.0.inspect(&a(), PATIENCE).await.expect("the server answers").holder
    }

    async fn revoke(&self, when: When) -> Revoked {
        let holder = self.holder().await.expect("it is held").owner;
        let revocation = Revocation::new(holder, mint(), Label::new("an operator"), when, PATIENCE);
        self.0.revoke(&a(), revocation).await.expect("the server answers")
    }
}

fn a() -> Name {
    Name::new("a").expect("a name")
}

/// Returns an owner that no other call returns.
fn mint() -> Owner {
    struct Counted;

    impl RandomSource for Counted {
        fn fill(&self, bytes: &mut [u8]) {
            static LAST: AtomicU64 = AtomicU64::new(0);
            bytes[..8].copy_from_slice(&LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        }
    }
    Owner::mint(&Random::new(Counted))
}

async fn granted(claim: &mut Box<dyn Claim>) -> Grant {
    match claim.attempt().await.expect("the server answers") {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("{busy:?}"),
    }
}

async fn busy(claim: &mut Box<dyn Claim>) -> Busy {
    match claim.attempt().await.expect("the server answers") {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(grant) => panic!("{grant:?}"),
    }
}

async fn held(claim: &mut Box<dyn Claim>, ttl: Duration) -> Duration {
    match claim.renew(ttl).await.expect("the server answers") {
        Renewal::Held { valid_for, age: Duration::ZERO } => valid_for,
        other => panic!("{other:?}"),
    }
}

async fn lost(claim: &mut Box<dyn Claim>) -> LossReason {
    match claim.renew(TTL).await.expect("the server answers") {
        Renewal::Lost(reason) => reason,
        other => panic!("{other:?}"),
    }
}

async fn release(claim: &mut Box<dyn Claim>) -> Release {
    claim.release().await.expect("the server answers")
}

const RELEASED: Release = Release::Released { others: None };

fn effect<T: std::fmt::Debug>(outcome: Result<T>) -> crate::error::Effect {
    match outcome.expect_err("it fails").kind() {
        ErrorKind::Unavailable { effect } => effect,
        other => panic!("{other:?}"),
    }
}
