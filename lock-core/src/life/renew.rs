//! Keeping what is held: renew in time, ask the server when the state may have changed, learn of a revoke.

use std::pin::pin;
use std::time::Duration;

use super::keep::{Ask, Held, WATCHED_AFTER, lease_for_certain};
use super::{Life, believed, certain};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Renewal, Watched};
use crate::ending::LossReason;
use crate::error::{ErrorKind, Result};
use crate::events::Event;

/// Why a period of holding ended.
pub(super) enum Kept<T> {
    Stopped(T),
    /// The lock was lost, even if `stop` has resolved since.
    Lost(LossReason),
}

impl Life {
    /// Renews in time, until `stop` resolves or the lock is lost.
    pub(super) async fn keep<T>(&mut self, held: &mut Held, stop: impl Future<Output = T>) -> Kept<T> {
        let mut stop = pin!(stop);
        let clock = self.shared.clock.clone();
        loop {
            // A guard that was told of a loss must not be told otherwise, whatever noticed the loss first.
            if let Some(cause) = self.is_lost(held) {
                return Kept::Lost(cause);
            }
            let wakes_at = held.watch_at.map_or(held.next(), |at| at.min(held.next()));
            tokio::select! {
                biased;
                order = &mut stop => match self.is_lost(held) {
                    // Lost by the clock, which the guard reads too: this task did not run when the lease ended.
                    Some(cause) => return Kept::Lost(cause),
                    None => return Kept::Stopped(order),
                },
                // Kept in mind, whatever else is due.
                () = self.claim.changed() => held.may_have_changed(clock.now()),
                () = clock.sleep_until(wakes_at) => {}
            }
            let next = held.next();
            if held.watch_at.is_some_and(|at| at <= clock.now()) && clock.now() < next {
                tokio::select! {
                    biased;
                    order = &mut stop => match self.is_lost(held) {
                        Some(cause) => return Kept::Lost(cause),
                        None => return Kept::Stopped(order),
                    },
                    () = self.watch(held) => {}
                    // The renewal does not wait for the watch.
                    () = clock.sleep_until(next) => held.watch_at = Some(next + WATCHED_AFTER),
                }
            }
            if self.is_lost(held).is_none()
                && let Some(ask) = held.due(clock.now(), self.terms.ttl)
            {
                let failed = self.confirm(held, ask).await.err();
                held.failed = failed.map(|error| (clock.now(), error));
            }
        }
    }

    /// Asks the server to announce a revoke at once. If it doesn't, the next renewal shows it.
    async fn watch(&mut self, held: &mut Held) {
        match self.claim.watch().await {
            Ok(watched) => {
                held.watch_at = None;
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

    /// Asks the server about the lock, and tells the guard the result.
    pub(super) async fn confirm(&mut self, held: &mut Held, ask: Ask) -> Result<Duration> {
        self.shared.process.only().await;
        let asked = self.now();
        let ttl = match ask {
            Ask::Keep(ttl) => {
                held.end.map_or(ttl, |end| ttl.min(lease_for_certain(end.since(asked)))).max(LOOK)
            }
            Ask::Look => LOOK,
        };
        // Set before the call, because its answer may be lost.
        self.longest_ttl = self.longest_ttl.max(ttl);
        let outcome = {
            let mut call = pin!(self.claim.renew(ttl));
            tokio::select! {
                biased;
                outcome = &mut call => outcome,
                () = self.shared.clock.sleep_until(held.until) => {
                    // Tell it now, and not only when the server answers.
                    held.lose(held.at_end(), &mut self.reporter);
                    call.await
                }
            }
        };
        if let Some(cause) = self.is_lost(held) {
            return Err(self.at("renew", cause.to_error()));
        }
        match outcome {
            Ok(Renewal::Held { valid_for, age }) => {
                self.tell(&Event::Renewed { name: &self.terms.name, took: self.now().since(asked) });
                let left = believed(valid_for, ttl);
                held.reaches(asked + certain(left, age));
                held.lease = held.lease.max(left + age);
                held.failures = 0;
                held.look_at = None;
                // A look proves no new lease: the next renewal stays due.
                if let (Ask::Keep(_), Some(at)) = (ask, &mut held.renew_at) {
                    *at = self.next_renewal(asked, left, ttl);
                }
                Ok(held.until.since(self.now()))
            }
            Ok(Renewal::Lost(cause)) => {
                held.lose(cause, &mut self.reporter);
                Err(self.at("renew", cause.to_error()))
            }
            Err(e) => {
                let e = self.at("renew", e);
                self.trouble("renew", &e);
                held.failures += 1;
                // Often enough for several tries before the deadline.
                let left = held.until.since(self.now());
                let pause = backoff::after_error(held.failures, &self.shared.random).min(left / 4);
                let again = Some(self.now() + pause.max(SHORTEST_PAUSE));
                match ask {
                    Ask::Keep(_) => held.renew_at = held.renew_at.and(again),
                    Ask::Look => held.look_at = again,
                }
                Err(e)
            }
        }
    }

    /// Returns when to renew next: after a third of the ttl, so that a holder that stands still for half of the ttl
    /// keeps the lock; up to a tenth of the pause earlier, so that many locks don't renew at the same moment. If less
    /// than the ttl is certain, as of a session that is proven now and then, that much sooner.
    pub(super) fn next_renewal(&self, asked: Instant, valid_for: Duration, ttl: Duration) -> Instant {
        let over = valid_for.saturating_sub(ttl / 3 * 2);
        let pause = over.clamp(valid_for / 6, valid_for / 3);
        asked + (pause - self.shared.random.up_to(pause / 10))
    }

    /// Returns why the lock is lost, if it is. It is the same answer that the guard gives now. Reports the loss if that
    /// was not done yet.
    pub(super) fn is_lost(&mut self, held: &Held) -> Option<LossReason> {
        if self.now() >= held.until {
            held.lose(held.at_end(), &mut self.reporter);
        }
        held.state.borrow().lost
    }
}

/// The ttl of a renewal that only asks whether the lock is held: no lease is shorter.
const LOOK: Duration = Duration::from_millis(1);
/// The shortest pause between two renewals, however little of the lease is left.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
