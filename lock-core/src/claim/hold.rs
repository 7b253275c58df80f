//! Holding: renew in time, tell a loss before anybody else can hold, until the guard gives the lock back or goes.

mod keep;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::account::Account;
use super::{Answer, Granted, Life, lost_because};
use crate::clock::Instant;
use crate::driver::Cause;
use crate::error::{Error, Result};
use crate::gate::Turn;
use crate::guard::{Command, Ending, State};
use crate::token::FencingToken;

use keep::Kept;

/// A granted lock.
pub(super) struct Held {
    token: FencingToken,
    pub(super) since: Instant,
    /// Until when the lock is certain.
    pub(super) until: Instant,
    /// The longest lease that the server has granted.
    lease: Duration,
    renew_at: Option<Instant>,
    /// When the server is to be asked whether it is still held, though nothing has to be renewed yet.
    look_at: Option<Instant>,
    /// When the server is to be asked to tell of a revoke; nothing once it does, or can't.
    watch_at: Option<Instant>,
    /// When `max_hold` ends it.
    end: Option<Instant>,
    failures: u32,
    /// A renewal of our own that came to nothing, and when that was known.
    failed: Option<(Instant, Error)>,
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

    /// Tells its guards and everybody else, unless they have been told.
    fn lose(&self, cause: Cause, account: &mut Account) {
        self.state.send_modify(|state| _ = state.lost.get_or_insert(cause));
        account.lost(cause);
    }

    /// What the server has just said, or not said, to a renewal of our own that was under way when this one was `asked`
    /// for: an answer that is not asked for again, since a caller's time is not that of two calls.
    fn answered_since(&mut self, asked: Instant) -> Option<Error> {
        self.failed.take().filter(|(at, _)| asked <= *at).map(|(_, error)| error)
    }

    /// The server says that it may stand differently. A fixed lease is looked at, not prolonged.
    fn may_have_changed(&mut self, now: Instant) {
        match &mut self.renew_at {
            Some(at) => *at = now,
            None => self.look_at = Some(now),
        }
    }

    /// When the server is to be asked next, or the lease is over.
    fn next(&self) -> Instant {
        [self.renew_at, self.look_at].into_iter().flatten().fold(self.until, Instant::min)
    }

    /// What it is to be asked now. A renewal looks, too.
    fn due(&self, now: Instant, ttl: Duration) -> Option<Ask> {
        let is_due = |at: &Instant| *at <= now;
        let renewal = self.renew_at.filter(is_due).map(|_| Ask::Keep(ttl));
        renewal.or(self.look_at.filter(is_due).map(|_| Ask::Look))
    }

    /// What it means if `until` comes.
    fn at_end(&self) -> Cause {
        self.state.borrow().at_end
    }
}

/// What was handed over.
pub(super) struct Given {
    pub(super) held: Held,
    /// What its guard asks for. Closed when that is gone.
    pub(super) orders: mpsc::UnboundedReceiver<Command>,
    /// Whether a user has had the guard, and not only a caller that went away, or that got not all of several locks.
    handed_over: Arc<AtomicBool>,
}

/// What the server is asked of a lock that is held.
#[derive(Clone, Copy)]
enum Ask {
    /// To keep it for so much more.
    Keep(Duration),
    /// Whether it still is.
    Look,
}

/// How holding came to its end.
pub(super) struct Ended {
    /// Why the lock was lost, if it was.
    pub(super) lost: Option<Cause>,
    /// Who waits for the release.
    pub(super) asker: Option<oneshot::Sender<Ending>>,
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
        let watch_at = Some(since + WATCHED_AFTER);
        let (lease, look_at, failures, failed) = (valid_for, None, 0, None);
        Held { token, since, until, lease, renew_at, look_at, watch_at, end, failures, failed, state }
    }

    /// Hands over the guard. If the `caller` has gone, the channel is closed, and says so.
    pub(super) fn hand_over(&mut self, held: Held, caller: Option<oneshot::Sender<Answer>>) -> Given {
        self.account.granted(held.token, held.since);
        let (commands, orders) = mpsc::unbounded_channel();
        let (owner, token, state) = (self.owner, held.token, held.state.subscribe());
        let handed_over = Arc::new(AtomicBool::new(false));
        if let Some(caller) = caller {
            let handed_over = handed_over.clone();
            drop(caller.send(Ok(Ok(Granted { owner, token, state, commands, handed_over }))));
        }
        Given { held, orders, handed_over }
    }

    /// Keeps the lock until its guard gives it back or goes, or it is lost.
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
                Kept::Lost(cause @ (Cause::Revoked | Cause::Session)) => {
                    // The next task of this process may queue for it already.
                    drop(turn.take());
                    // By then the server has ended it: releasing it before would be to grant it while its work goes on.
                    let over = held.until + (lasting(held.lease) - held.lease) + self.patience;
                    let asker = self.outlast(orders, cause, over).await;
                    return Ended { lost: Some(cause), asker };
                }
                Kept::Lost(cause) => return Ended { lost: Some(cause), asker: None },
            };
            let lost = match self.terms.min_hold {
                Some(least) if handed_over.load(Ordering::Acquire) => self.linger(held, least).await,
                _ => None,
            };
            return Ended { lost, asker };
        }
    }

    /// What renewed it has ended in a panic. Its guard is told, whose work may go on: as after a revoke, and until what is
    /// certain of the lease is over, since this claim can't ask any more. Who asks for the release, if the guard does.
    pub(super) async fn forsake(&mut self, given: &mut Given) -> Option<oneshot::Sender<Ending>> {
        let Given { held, orders, .. } = given;
        let cause = self.is_lost(held).unwrap_or(Cause::RuntimeEnded);
        held.lose(cause, &mut self.account);
        self.outlast(orders, cause, held.until).await
    }

    /// No other claim has what was revoked until its deadline, and so does what is left in a session that was given up.
    /// If the guard goes before it is `over`, so has the work that it protected, and the release that follows makes the
    /// name free. Who asks for it, if the guard does.
    async fn outlast(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Command>,
        cause: Cause,
        over: Instant,
    ) -> Option<oneshot::Sender<Ending>> {
        let clock = self.shared.clock.clone();
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Command::Renew { reply, .. }) => {
                        let lost = self.at("renew", lost_because(cause));
                        let _: Result<(), _> = reply.send(Err(lost));
                    }
                    Some(Command::Release(asker)) => return Some(asker),
                    None => return None,
                },
                () = clock.sleep_until(over) => return None,
            }
        }
    }

    /// A lock that is to be held for a while at least goes on without its guard, once a user has had that.
    async fn linger(&mut self, held: &mut Held, least: Duration) -> Option<Cause> {
        let clock = self.shared.clock.clone();
        match self.keep(held, clock.sleep_until(held.since + least)).await {
            Kept::Stopped(()) => None,
            Kept::Lost(cause) => Some(cause),
        }
    }
}

/// How long a lock is held before its holder asks to be told of a revoke: most are given back sooner, and cost nothing.
const WATCHED_AFTER: Duration = Duration::from_millis(200);

/// A lease of which this much is certain.
fn lasting(certain: Duration) -> Duration {
    certain.saturating_add(certain / 50).saturating_add(Duration::from_millis(4))
}
