//! Holding: renew in time, tell a loss before anybody else can hold, until the guard gives the lock back or goes.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::{Answer, Granted, Life, believed, certain, lost_because};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Cause, Renewal};
use crate::error::Result;
use crate::events::Event;
use crate::guard::{Command, Ending, State};
use crate::token::FencingToken;

/// A granted lock.
pub(super) struct Held {
    token: FencingToken,
    pub(super) since: Instant,
    /// Until when the lock is certain.
    pub(super) until: Instant,
    renew_at: Option<Instant>,
    /// When `max_hold` ends it.
    end: Option<Instant>,
    failures: u32,
    state: watch::Sender<State>,
}

impl Held {
    /// There is proof of the lock up to `until`. An older one may reach further: the server never shortens.
    fn reaches(&mut self, until: Instant) {
        let state = Held::state(until.max(self.until), self.end);
        self.until = state.until;
        // What is lost stays lost.
        self.state.send_modify(|old| *old = State { lost: old.lost, ..state });
    }

    fn state(until: Instant, end: Option<Instant>) -> State {
        match end {
            Some(end) if until >= end => State { until: end, at_end: Cause::MaxHold, lost: None },
            _ => State { until, at_end: Cause::Expired, lost: None },
        }
    }

    /// What it means if `until` comes.
    fn at_end(&self) -> Cause {
        self.state.borrow().at_end
    }
}

/// How holding came to its end.
pub(super) struct Ended {
    /// Why the lock was lost, if it was.
    pub(super) lost: Option<Cause>,
    /// Who waits for the release.
    pub(super) asker: Option<oneshot::Sender<Ending>>,
}

/// What ended a stretch of holding.
enum Kept<T> {
    Stopped(T),
    Lost(Cause),
}

impl Life {
    /// What was granted at `since`, certain until `until`.
    pub(super) fn held(
        &self,
        token: FencingToken,
        since: Instant,
        until: Instant,
        valid_for: Duration,
    ) -> Held {
        let end = self.terms.max_hold.map(|most| since + most);
        let renew_at = self.terms.renewed.then(|| self.next_renewal(since, valid_for, self.terms.ttl));
        let state = watch::Sender::new(Held::state(until, end));
        let State { until, .. } = *state.borrow();
        Held { token, since, until, renew_at, end, failures: 0, state }
    }

    /// Hands over the guard, and keeps the lock until that gives it back or goes, or the lock is lost.
    pub(super) async fn hold(&mut self, held: &mut Held, caller: oneshot::Sender<Answer>) -> Ended {
        let waited = self.now().since(self.began);
        self.tell(&Event::Granted { name: &self.terms.name, owner: self.owner, token: held.token, waited });
        let (commands, mut orders) = mpsc::unbounded_channel();
        let (owner, token, state) = (self.owner, held.token, held.state.subscribe());
        // If nobody takes the guard, its end of the channel is gone, and that is what `orders` says.
        drop(caller.send(Ok(Ok(Granted { owner, token, state, commands }))));
        loop {
            let asker = match self.keep(held, orders.recv()).await {
                Kept::Stopped(Some(Command::Renew { ttl, reply })) => {
                    let outcome = self.confirm(held, ttl).await;
                    let _: Result<(), _> = reply.send(outcome);
                    continue;
                }
                Kept::Stopped(Some(Command::Release(asker))) => Some(asker),
                Kept::Stopped(None) => None,
                Kept::Lost(cause) => return Ended { lost: Some(cause), asker: None },
            };
            let lost = match self.terms.min_hold {
                Some(least) => self.linger(held, least).await,
                None => None,
            };
            return Ended { lost, asker };
        }
    }

    /// A lock that is to be held for a while at least goes on without its guard.
    async fn linger(&mut self, held: &mut Held, least: Duration) -> Option<Cause> {
        let clock = self.shared.clock.clone();
        match self.keep(held, clock.sleep_until(held.since + least)).await {
            Kept::Stopped(()) => None,
            Kept::Lost(cause) => Some(cause),
        }
    }

    /// Renews in time, until `stop` resolves or the lock is lost.
    async fn keep<T>(&mut self, held: &mut Held, stop: impl Future<Output = T>) -> Kept<T> {
        let mut stop = pin!(stop);
        let clock = self.shared.clock.clone();
        loop {
            // A guard that was told may not be told otherwise, whoever noticed.
            if let Some(cause) = held.state.borrow().lost {
                return Kept::Lost(cause);
            }
            let next = held.renew_at.map_or(held.until, |at| at.min(held.until));
            let due = tokio::select! {
                biased;
                order = &mut stop => return Kept::Stopped(order),
                // A fixed lease is looked at, not prolonged.
                () = self.claim.changed() => if self.terms.renewed { self.terms.ttl } else { LOOK },
                () = clock.sleep_until(next) => self.terms.ttl,
            };
            if clock.now() >= held.until {
                self.lose(held, held.at_end());
                continue;
            }
            // What came of it stands in `held`.
            self.confirm(held, due).await.ok();
        }
    }

    /// Asks the server to keep the lock for `ttl` more, and tells the guard what came of it.
    async fn confirm(&mut self, held: &mut Held, ttl: Duration) -> Result<Duration> {
        self.shared.process.only().await;
        let asked = self.now();
        let ttl = held.end.map_or(ttl, |end| ttl.min(lasting(end.since(asked)))).max(LOOK);
        let clock = self.shared.clock.clone();
        let mut late = false;
        let outcome = {
            let mut call = pin!(self.claim.renew(ttl));
            tokio::select! {
                biased;
                outcome = &mut call => outcome,
                () = clock.sleep_until(held.until) => {
                    // Told now, and not when the server answers.
                    late = true;
                    held.state.send_modify(|state| state.lost = Some(state.at_end));
                    call.await
                }
            }
        };
        if late || clock.now() >= held.until {
            self.lose(held, held.at_end());
            return Err(self.at("renew", lost_because(held.at_end())));
        }
        match outcome {
            Ok(Renewal::Held { valid_for }) => {
                self.tell(&Event::Renewed { name: &self.terms.name, took: self.now().since(asked) });
                self.extend(held, asked, believed(valid_for, ttl), ttl);
                Ok(held.until.since(self.now()))
            }
            Ok(Renewal::Lost(cause)) => {
                self.lose(held, cause);
                Err(self.at("renew", lost_because(cause)))
            }
            Err(e) => {
                let e = self.at("renew", e);
                self.trouble("renew", &e);
                held.failures += 1;
                // Often enough to have several tries before the deadline.
                let left = held.until.since(self.now());
                let pause = backoff::after_error(held.failures, &self.shared.random).min(left / 4);
                held.renew_at = held.renew_at.map(|_| self.now() + pause.max(SHORTEST_PAUSE));
                Err(e)
            }
        }
    }

    fn extend(&self, held: &mut Held, asked: Instant, valid_for: Duration, ttl: Duration) {
        held.reaches(asked + certain(valid_for));
        held.failures = 0;
        held.renew_at = held.renew_at.map(|_| self.next_renewal(asked, valid_for, ttl));
    }

    /// When a third of the ttl is over, so that a holder which stands still for half of it keeps the lock; up to a tenth
    /// of the pause earlier, so that many locks don't renew as one. Where less than the ttl is certain, as of a session
    /// that is proven now and then, that much sooner.
    fn next_renewal(&self, asked: Instant, valid_for: Duration, ttl: Duration) -> Instant {
        let over = valid_for.saturating_sub(ttl / 3 * 2);
        let pause = over.clamp(valid_for / 6, valid_for / 3);
        asked + (pause - self.shared.random.up_to(pause / 10))
    }

    fn lose(&self, held: &Held, cause: Cause) {
        held.state.send_modify(|state| _ = state.lost.get_or_insert(cause));
        let since = self.now().since(held.since);
        self.tell(&Event::Lost { name: &self.terms.name, owner: self.owner, cause, held: since });
    }
}

/// A renewal that only looks: no lease is shorter.
const LOOK: Duration = Duration::from_millis(1);
/// Between two renewals, however little is left.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// A lease of which this much is certain.
fn lasting(certain: Duration) -> Duration {
    certain.saturating_add(certain / 50).saturating_add(Duration::from_millis(4))
}
