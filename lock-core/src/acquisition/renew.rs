//! Renewing: what the server is asked about a held lock, and what its answers change.

use std::pin::pin;
use std::time::Duration;

use super::held::{Ask, Held};
use super::validity::{less_margin, with_margin};
use super::{Acquisition, made};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Renewal, Watched};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;

impl Acquisition {
    /// Asks the server about the lock, and tells the guard the result. Returns for how long the lock is then certain.
    pub(super) async fn confirm(&mut self, held: &mut Held, ask: Ask) -> Result<Duration> {
        self.shared.process.only().await;
        let asked = self.now();
        let ttl = match ask {
            Ask::Keep(ttl) => held.end.map_or(ttl, |end| ttl.min(with_margin(end.since(asked)))).max(LOOK),
            Ask::Look => LOOK,
        };
        // Set before the call, because its answer may be lost.
        self.longest_ttl = self.longest_ttl.max(ttl);
        let outcome = self.renew(held, ttl).await;
        if let Some(cause) = self.detect_loss(held) {
            return Err(self.at("renew", cause.to_error()));
        }
        match outcome {
            Ok(Renewal::Held { valid_for, age }) => {
                self.report(&Event::Renewed { name: &self.terms.name, took: self.now().since(asked) });
                // No more than was asked for: a server whose clock was set back says more, and takes it back when its
                // clock is set right.
                let lease = valid_for.min(ttl);
                held.reaches(asked + less_margin(lease, age));
                held.lease = held.lease.max(lease + age);
                held.failures = 0;
                held.look_at = None;
                // A look proves no new lease: the next renewal stays due.
                if let (Ask::Keep(_), Some(at)) = (ask, &mut held.renew_at) {
                    *at = self.next_renewal(asked, lease, ttl);
                }
                Ok(held.valid_until().since(self.now()))
            }
            Ok(Renewal::Lost(cause)) => {
                held.lose(cause, &mut self.reporter);
                Err(self.at("renew", cause.to_error()))
            }
            Err(e) => {
                let e = self.at("renew", e);
                self.not_confirmed(held, ask, &e);
                Err(e)
            }
        }
    }

    /// Renews. Notifies the guard of the loss if the deadline comes before the answer, and not only when the server
    /// answers.
    pub(super) async fn renew(&mut self, held: &Held, ttl: Duration) -> Result<Renewal> {
        let mut call = pin!(made(&mut self.claim).renew(ttl));
        let outcome = tokio::select! {
            biased;
            outcome = &mut call => outcome,
            () = self.shared.clock.sleep_until(held.valid_until()) => {
                held.lose(held.at_end(), &mut self.reporter);
                call.await
            }
        };
        self.lease_ends_by = self.lease_ends_by.max(self.shared.clock.now() + ttl);
        outcome
    }

    /// Decides when to retry after an error: often enough for several tries before the deadline.
    fn not_confirmed(&self, held: &mut Held, ask: Ask, error: &Error) {
        self.trouble("renew", error);
        held.failures += 1;
        let left = held.valid_until().since(self.now());
        let pause = backoff::after_error(held.failures, &self.shared.random).min(left / 4);
        let again = Some(self.now() + pause.max(SHORTEST_PAUSE));
        match ask {
            Ask::Keep(_) => held.renew_at = held.renew_at.and(again),
            Ask::Look => held.look_at = again,
        }
    }

    /// Returns when to renew next: after a third of the ttl, so that a holder that stands still for half of the ttl
    /// keeps the lock; up to a tenth of the pause earlier, so that many locks don't all renew at the same moment. If less
    /// than the ttl is certain, as of a session that is proven now and then, that much sooner.
    ///
    /// Rounded down to a fiftieth of the pause, so that the locks of a client that are due at about the same time are due
    /// together: the client wakes up once for them, and a backend may send them in one request.
    pub(super) fn next_renewal(&self, asked: Instant, valid_for: Duration, ttl: Duration) -> Instant {
        let over = valid_for.saturating_sub(ttl / 3 * 2);
        let pause = over.clamp(valid_for / 6, valid_for / 3);
        let at = asked + (pause - self.shared.random.up_to(pause / 10));
        round_down(at, pause / 50)
    }

    /// Asks the server to announce a revoke at once. If it doesn't, the next renewal shows it.
    pub(super) async fn watch(&mut self, held: &mut Held) {
        match made(&mut self.claim).watch().await {
            Ok(watched) => {
                held.watch_at = None;
                self.shared.events.listens();
                if watched == Watched::FromNowOn {
                    // A revoke before that was not announced.
                    held.look_at = Some(self.now());
                }
            }
            Err(e) => {
                let is_transient = e.kind() != ErrorKind::Unsupported;
                held.watch_at = is_transient.then(|| self.now() + self.terms.ttl / 3);
                if is_transient {
                    self.trouble("watch", &self.at("watch", e));
                }
            }
        }
    }
}

fn round_down(at: Instant, step: Duration) -> Instant {
    let since = at.since_origin();
    match since.as_nanos().checked_rem(step.as_nanos()).map(u64::try_from) {
        Some(Ok(over)) => Instant::from_origin(since - Duration::from_nanos(over)),
        _ => at,
    }
}

/// The ttl of a renewal that only asks whether the lock is held: no lease is shorter.
const LOOK: Duration = Duration::from_millis(1);
/// The shortest pause between two renewals, however little of the lease is left.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
