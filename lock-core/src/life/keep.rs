//! Holding: renew in time and tell a loss before another owner can hold, until the guard releases the lock or is
//! dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::event_reporter::EventReporter;
use super::renew::Kept;
use super::{Answer, Granted, Life};
use crate::clock::Instant;
use crate::ending::{Ending, LossReason};
use crate::error::{Error, Result};
use crate::guard::{Command, State};
use crate::local_queue::Turn;
use crate::token::FencingToken;

/// A granted lock.
pub(super) struct Held {
    pub(super) token: FencingToken,
    pub(super) since: Instant,
    /// The deadline: until when the lock is certain.
    pub(super) until: Instant,
    /// The longest lease that the server has granted.
    pub(super) lease: Duration,
    pub(super) renew_at: Option<Instant>,
    /// When to ask the server whether the lock is still held, although nothing has to be renewed yet.
    pub(super) look_at: Option<Instant>,
    /// When to ask the server to announce revokes; `None` once it does, or if it can't.
    pub(super) watch_at: Option<Instant>,
    /// When `max_hold` ends the hold.
    pub(super) end: Option<Instant>,
    pub(super) failures: u32,
    /// The error of a renewal that the claim made by itself, and when the error was known.
    pub(super) failed: Option<(Instant, Error)>,
    pub(super) state: watch::Sender<State>,
}

impl Held {
    /// Records a proof that the lock is held up to `until`. An older proof may reach further: the server never
    /// shortens.
    pub(super) fn reaches(&mut self, until: Instant) {
        let state = Held::state(until.max(self.until), self.end);
        self.until = state.until;
        // What is lost stays lost.
        self.state.send_modify(|old| *old = State { lost: old.lost, ..state });
    }

    pub(super) fn state(until: Instant, end: Option<Instant>) -> State {
        match end {
            Some(end) if until >= end => State { until: end, at_end: LossReason::MaxHold, lost: None },
            _ => State { until, at_end: LossReason::Expired, lost: None },
        }
    }

    /// Tells the loss to the guards and to all receivers of events, unless they have been told.
    pub(super) fn lose(&self, cause: LossReason, reporter: &mut EventReporter) {
        self.state.send_modify(|state| _ = state.lost.get_or_insert(cause));
        reporter.lost(cause);
    }

    /// Returns the error of a renewal of the claim's own that was still under way at `asked`. It also answers the
    /// renewal that was asked for by hand at that time: the caller's patience is that of one call, and not of two.
    pub(super) fn answered_since(&mut self, asked: Instant) -> Option<Error> {
        self.failed.take().filter(|(at, _)| asked <= *at).map(|(_, error)| error)
    }

    /// Notes that the state on the server may have changed. A fixed lease is not prolonged for that: the server is only
    /// asked whether it is held.
    pub(super) fn may_have_changed(&mut self, now: Instant) {
        match &mut self.renew_at {
            Some(at) => *at = now,
            None => self.look_at = Some(now),
        }
    }

    /// Returns when to ask the server next, or the deadline if that comes first.
    pub(super) fn next(&self) -> Instant {
        [self.renew_at, self.look_at].into_iter().flatten().fold(self.until, Instant::min)
    }

    /// Returns what to ask the server now. A renewal also shows whether the lock is still held.
    pub(super) fn due(&self, now: Instant, ttl: Duration) -> Option<Ask> {
        let is_due = |at: &Instant| *at <= now;
        let renewal = self.renew_at.filter(is_due).map(|_| Ask::Keep(ttl));
        renewal.or(self.look_at.filter(is_due).map(|_| Ask::Look))
    }

    /// Returns why the lock is lost when `until` is reached.
    pub(super) fn at_end(&self) -> LossReason {
        self.state.borrow().at_end
    }
}

/// What was handed over to a guard.
pub(super) struct Given {
    pub(super) held: Held,
    /// What the guard asks for. Closed when the guard is gone.
    pub(super) orders: mpsc::UnboundedReceiver<Command>,
    /// Whether a user has had the guard. It does not count if the caller went away, or got only some of several locks.
    handed_over: Arc<AtomicBool>,
}

/// What the server is asked about a held lock.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    /// To keep it for this long from now.
    Keep(Duration),
    /// Whether it is still held.
    Look,
}

/// How holding ended.
pub(super) struct Ended {
    /// Why the lock was lost, if it was.
    pub(super) lost: Option<LossReason>,
    /// The caller that waits for the release.
    pub(super) asker: Option<oneshot::Sender<Ending>>,
}

impl Life {
    /// Returns a hold that was granted to the attempt of `since`, and is certain until `until`.
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
        let watch_at = Some(since + WATCHED_AFTER);
        let (lease, look_at, failures, failed) = (valid_for, None, 0, None);
        Held { token, since, until, lease, renew_at, look_at, watch_at, end, failures, failed, state }
    }

    /// Hands over the guard. If the `caller` has gone, the guard's channel is closed, which says so.
    pub(super) fn hand_over(&mut self, held: Held, caller: Option<oneshot::Sender<Answer>>) -> Given {
        self.reporter.granted(held.token, held.since);
        let (commands, orders) = mpsc::unbounded_channel();
        let (owner, token, state) = (self.owner, held.token, held.state.subscribe());
        let handed_over = Arc::new(AtomicBool::new(false));
        if let Some(caller) = caller {
            let handed_over = handed_over.clone();
            drop(caller.send(Ok(Ok(Granted { owner, token, state, commands, handed_over }))));
        }
        Given { held, orders, handed_over }
    }

    /// Keeps the lock until its guard releases it or is dropped, or until it is lost.
    pub(super) async fn hold(&mut self, given: &mut Given, turn: &mut Option<Turn>) -> Ended {
        loop {
            let Given { held, orders, handed_over } = &mut *given;
            let asker = match self.keep(held, orders.recv()).await {
                Kept::Stopped(Some(Command::Renew { ttl, asked, reply })) => {
                    let outcome = match held.answered_since(asked) {
                        Some(error) => Err(error),
                        None => self.confirm(held, Ask::Keep(ttl)).await,
                    };
                    let _: Result<(), _> = reply.send(outcome);
                    continue;
                }
                Kept::Stopped(Some(Command::Release(asker))) => Some(asker),
                Kept::Stopped(None) => None,
                Kept::Lost(cause @ (LossReason::Revoked | LossReason::Session)) => {
                    // From now on the next task of this process may queue for it.
                    drop(turn.take());
                    // By then the server has ended the lease. A release before that would let the lock be granted while
                    // the guard's work goes on.
                    let over = held.until + (lease_for_certain(held.lease) - held.lease) + self.patience;
                    let asker = self.wait_for_guard(orders, cause, over).await;
                    return Ended { lost: Some(cause), asker };
                }
                Kept::Lost(cause) => return Ended { lost: Some(cause), asker: None },
            };
            let lost = match self.terms.min_hold {
                Some(least) if handed_over.load(Ordering::Acquire) => self.hold_for_min(held, least).await,
                _ => None,
            };
            return Ended { lost, asker };
        }
    }

    /// Tells the guard the loss after a panic, because nothing renews the lock any more. The guard's work may go on: as
    /// after a revoke, waits until the guard goes, at most until the certain part of the lease is over. This claim
    /// can't ask the server any more. Returns the caller that waits for the release, if there is one.
    pub(super) async fn wait_after_panic(&mut self, given: &mut Given) -> Option<oneshot::Sender<Ending>> {
        let Given { held, orders, .. } = given;
        let cause = self.is_lost(held).unwrap_or(LossReason::RuntimeEnded);
        held.lose(cause, &mut self.reporter);
        self.wait_for_guard(orders, cause, held.until).await
    }

    /// Waits until the guard goes, at most until `over`. Until its deadline no other claim gets what was revoked, nor
    /// what is left in a session that was given up. If the guard goes before `over`, the work that it protected has
    /// ended, and the release that follows frees the name. Returns the caller that waits for the release, if there is
    /// one.
    async fn wait_for_guard(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Command>,
        cause: LossReason,
        over: Instant,
    ) -> Option<oneshot::Sender<Ending>> {
        let clock = self.shared.clock.clone();
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Command::Renew { reply, .. }) => {
                        let lost = self.at("renew", cause.to_error());
                        let _: Result<(), _> = reply.send(Err(lost));
                    }
                    Some(Command::Release(asker)) => return Some(asker),
                    None => return None,
                },
                () = clock.sleep_until(over) => return None,
            }
        }
    }

    /// Keeps the lock without its guard until `least` has passed since the grant. Only called if a user has had the
    /// guard.
    async fn hold_for_min(&mut self, held: &mut Held, least: Duration) -> Option<LossReason> {
        let clock = self.shared.clock.clone();
        match self.keep(held, clock.sleep_until(held.since + least)).await {
            Kept::Stopped(()) => None,
            Kept::Lost(cause) => Some(cause),
        }
    }
}

/// How long a lock is held before its claim asks the server to announce revokes. Most locks are released sooner and
/// cost nothing.
pub(super) const WATCHED_AFTER: Duration = Duration::from_millis(200);

/// Returns the length of a lease of which `certain` remains after the margin.
pub(super) fn lease_for_certain(certain: Duration) -> Duration {
    certain.saturating_add(certain / 50).saturating_add(Duration::from_millis(4))
}
