//! Locks that one client holds and renews in one moment, for the tests of backends whose renewals share a request.

use std::time::Duration;

use lock_core::driver::{Claim, LossReason, Renewal};
use lock_core::{Client, Result};
use tokio::task::JoinSet;

use crate::claims::{self, Terms};

/// Locks that one client holds, by their numbers. Their names are `lock-000`, `lock-001` and so on.
#[derive(Debug)]
pub struct Holders {
    claims: Vec<Box<dyn Claim>>,
    ttl: Duration,
}

/// Renewals that are under way.
#[derive(Debug)]
pub struct Renewing {
    tasks: JoinSet<(usize, Result<Renewal>, Box<dyn Claim>)>,
    ttl: Duration,
}

impl Holders {
    /// Takes this many locks, one after the other.
    ///
    /// # Panics
    ///
    /// If one of them is not granted.
    pub async fn of(client: &Client, locks: usize, terms: Terms<'_>) -> Holders {
        let mut held = Vec::with_capacity(locks);
        for n in 0..locks {
            let mut claim = claims::claim(client, &name(n), terms);
            claims::granted(&mut claim).await;
            held.push(claim);
        }
        Holders::from(held, terms.ttl)
    }

    /// Returns the holders that these claims are, which are renewed for `ttl`.
    pub fn from(claims: Vec<Box<dyn Claim>>, ttl: Duration) -> Holders {
        Holders { claims, ttl }
    }

    /// Begins to renew all of them, in one moment.
    pub fn renew(self) -> Renewing {
        let ttl = self.ttl;
        let renewals = self.claims.into_iter().enumerate();
        let tasks =
            renewals.map(|(n, mut claim)| async move { (n, claim.renew(ttl).await, claim) }).collect();
        Renewing { tasks, ttl }
    }
}

impl Renewing {
    /// Waits until the next renewal is answered. Returns the number of its lock, the answer, and its claim.
    ///
    /// # Panics
    ///
    /// If all have been answered.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> (usize, Result<Renewal>, Box<dyn Claim>) {
        let next = self.tasks.join_next().await.expect("not all renewals were answered");
        next.expect("a renewal does not panic")
    }

    /// Waits until this many more of them have confirmed that their locks are held, for a whole ttl. Those that are in
    /// `lost` have to be told why, and nothing else.
    ///
    /// # Panics
    ///
    /// If another answer comes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the answers that have come are gone.
    pub async fn expect(&mut self, renewals: usize, lost: &[(usize, LossReason)]) -> Holders {
        let mut answered = Vec::with_capacity(renewals);
        for _ in 0..renewals {
            let (n, answer, claim) = self.next().await;
            let is_right = match lost.iter().find(|(lost, _)| *lost == n) {
                Some((_, why)) => matches!(&answer, Ok(Renewal::Lost(cause)) if cause == why),
                None => matches!(&answer, Ok(Renewal::Held { valid_for, .. }) if *valid_for > self.ttl / 2),
            };
            assert!(is_right, "{n}: {answer:?}");
            answered.push((n, claim));
        }
        answered.sort_by_key(|(n, _)| *n);
        Holders { claims: answered.into_iter().map(|(_, claim)| claim).collect(), ttl: self.ttl }
    }
}

fn name(n: usize) -> String {
    format!("lock-{n:03}")
}
