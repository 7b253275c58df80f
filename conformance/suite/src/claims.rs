//! Claims that are used directly, call by call as the core uses them, for what a backend's own tests check between the
//! calls.

use std::time::Duration;

use crate::timing::Answered;
use lock_core::driver::{Attempt, Busy, Claim, Grant, Predecessor, Queueing, Request, Takeover};
use lock_core::{Client, Label, Name, Owner, Random};

/// The terms of a claim, besides its name.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The time for which the server keeps the lock without a renewal.
    pub ttl: Duration,
    /// The longest time that each call may take.
    pub patience: Duration,
    /// `Queued` if the claim takes a place in a queue.
    pub waits: Queueing,
    /// The label of its owner, as people see it.
    pub label: &'a str,
}

/// Makes a claim of a new owner.
///
/// # Panics
///
/// If `name` is not a valid name.
pub fn claim(client: &Client, name: &str, terms: Terms<'_>) -> Box<dyn Claim> {
    predecessor(client, name, terms).0
}

/// Makes a claim of a new owner, and returns what a claim that succeeds it has to name.
///
/// # Panics
///
/// If `name` is not a valid name.
pub fn predecessor(client: &Client, name: &str, terms: Terms<'_>) -> (Box<dyn Claim>, Predecessor) {
    let Terms { ttl, patience, waits, label } = terms;
    let (name, owner) = (Name::new(name).expect("the test's name is valid"), Owner::mint(&Random::system()));
    let mut request = Request::new(name, owner, ttl, patience, client.clock().clone());
    (request.waits, request.label) = (waits, Label::new(label));
    let named = Predecessor::new(owner, request.label.clone());
    (client.driver().claim(request), named)
}

/// Attempts the lock and returns the grant.
///
/// # Panics
///
/// If the lock is not granted.
pub async fn granted(claim: &mut Box<dyn Claim>) -> Grant {
    match claim.attempt().answered().await {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("expected a grant, got {busy:?}"),
    }
}

/// Takes the lock from `predecessor`, and returns the grant and whether other clients wait.
///
/// # Panics
///
/// If the lock is not granted.
pub async fn succeeded(claim: &mut Box<dyn Claim>, predecessor: &Predecessor) -> (Grant, Option<bool>) {
    match claim.take_over(predecessor).answered().await {
        Takeover::Granted { grant, others } => (grant, others),
        Takeover::NotHeld => panic!("the predecessor does not hold the lock"),
    }
}

/// Attempts the lock, finds it held, and returns what the server told about that.
///
/// # Panics
///
/// If the lock is granted, or the attempt fails.
pub async fn busy(claim: &mut Box<dyn Claim>) -> Busy {
    match claim.attempt().await.expect("contention is not an error") {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(grant) => panic!("expected busy, got {grant:?}"),
    }
}
