//! Claims spoken directly, call by call as the core does: for what a backend's own tests check in between.

use std::time::Duration;

use crate::timing::Answered;
use lock_core::driver::{Attempt, Busy, Claim, Grant, Mode, Request, Waits};
use lock_core::{Client, Label, Name, Owner, Random};

/// What a claim is about, beside its name.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// How long the lock is to be kept without a renewal.
    pub ttl: Duration,
    /// How long each call may take.
    pub patience: Duration,
    /// Whether it would take a place in a queue.
    pub waits: Waits,
    /// What people are shown of its owner.
    pub label: &'a str,
}

/// A claim of a new owner. Panics if this can't be a name.
pub fn claim(client: &Client, name: &str, terms: Terms<'_>) -> Box<dyn Claim> {
    let Terms { ttl, patience, waits, label } = terms;
    client.driver().claim(Request {
        name: Name::new(name).expect("the test's name is one"),
        owner: Owner::mint(&Random::system()),
        mode: Mode::Exclusive,
        ttl,
        patience,
        waits,
        label: Label::new(label),
        clock: client.clock().clone(),
    })
}

/// Attempts, and is granted the lock; panics if it isn't.
pub async fn granted(claim: &mut Box<dyn Claim>) -> Grant {
    match claim.attempt().answered().await {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("expected a grant, got {busy:?}"),
    }
}

/// Attempts, and finds the lock held; panics if it doesn't.
pub async fn busy(claim: &mut Box<dyn Claim>) -> Busy {
    match claim.attempt().await.expect("contention is not an error") {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(grant) => panic!("expected busy, got {grant:?}"),
    }
}
