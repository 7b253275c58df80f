//! A hold: what all guards of one acquisition share. It reads only the clock and what the claim reports.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::client::Shared;
use crate::clock::Instant;
use crate::ending::Ending;
use crate::ending::LossReason;
use crate::error::{Error, Result};
use crate::home::{CallerPolled, Home};
use crate::life::Granted;
use crate::lock::Terms;
use crate::name::Name;
use crate::owner::Owner;
use crate::reentrant::Registration;
use crate::token::FencingToken;

/// A held lock. The last guard that drops it releases the lock.
pub(crate) struct Hold {
    pub(super) name: Name,
    pub(super) owner: Owner,
    pub(super) token: FencingToken,
    pub(super) shared: Arc<Shared>,
    /// The ttl of a renewal that the caller did not ask for; `None` for a fixed lease.
    renewal: Option<Duration>,
    /// The answer to a renewal that no caller waits for.
    background_renewal: Mutex<Option<oneshot::Receiver<Result<Duration>>>>,
    state: watch::Receiver<State>,
    commands: mpsc::UnboundedSender<Command>,
    handed_over: Arc<AtomicBool>,
    claim_future: Arc<CallerPolled>,
    /// Lets a reentrant owner find this hold again.
    registration: OnceLock<Registration>,
    // Last field, dropped last: a dedicated client's last guard first tells its claim to leave, and then waits for
    // that.
    pub(super) home: Arc<Home>,
}

/// What the claim tells its guards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) until: Instant,
    /// Why the lock is lost when `until` is reached.
    pub(crate) at_end: LossReason,
    pub(crate) lost: Option<LossReason>,
}

/// What a guard asks of the claim. Closing the channel asks for a release.
#[derive(Debug)]
pub(crate) enum Command {
    Renew { ttl: Duration, asked: Instant, reply: oneshot::Sender<Result<Duration>> },
    Release(oneshot::Sender<Ending>),
}

impl Hold {
    pub(crate) fn new(
        terms: &Terms,
        granted: Granted,
        claim_future: Arc<CallerPolled>,
        shared: Arc<Shared>,
        home: Arc<Home>,
    ) -> Hold {
        let Granted { owner, token, state, commands, handed_over } = granted;
        let renewal = terms.renewed.then_some(terms.ttl);
        Hold {
            name: terms.name.clone(),
            owner,
            token,
            shared,
            renewal,
            background_renewal: Mutex::default(),
            state,
            commands,
            handed_over,
            claim_future,
            registration: OnceLock::new(),
            home,
        }
    }

    /// Registers the hold with its reentrant owner, which can find it from now on.
    pub(crate) fn register(&self, registration: Registration) {
        // A hold is registered once, by the task that entered first.
        let _: Result<(), Registration> = self.registration.set(registration);
    }

    /// Marks that a user has a guard of this hold.
    pub(super) fn is_handed_over(&self) {
        self.handed_over.store(true, Ordering::Release);
    }

    pub(super) fn valid_for(&self) -> Duration {
        match (self.loss(), *self.state.borrow()) {
            (None, State { until, .. }) => until.since(self.shared.clock.now()),
            (Some(_), _) => Duration::ZERO,
        }
    }

    pub(super) async fn lost(&self) -> LossReason {
        if self.home.is_inherited() {
            return LossReason::RuntimeEnded;
        }
        let mut state = self.state.clone();
        let told = state.wait_for(|state| state.lost.is_some()).await.ok().and_then(|state| state.lost);
        told.unwrap_or(LossReason::RuntimeEnded)
    }

    pub(super) async fn at_risk(&self, before: Duration) -> LossReason {
        let clock = &self.shared.clock;
        let mut state = self.state.clone();
        let watch = pin!(async {
            loop {
                if self.home.is_inherited() {
                    return LossReason::RuntimeEnded;
                }
                let State { until, at_end, lost } = *state.borrow_and_update();
                if lost.is_some() || until.since(clock.now()) <= before {
                    return lost.unwrap_or(at_end);
                }
                let at = Instant::from_origin(until.since_origin().saturating_sub(before));
                tokio::select! {
                    biased;
                    renewed = state.changed() => if renewed.is_err() { return LossReason::RuntimeEnded },
                    () = clock.sleep_until(at) => {}
                }
            }
        });
        self.home.within(watch).await
    }

    pub(super) async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let lost = || self.loss().unwrap_or(LossReason::Expired).to_error();
        if self.home.is_inherited() {
            return Err(lost());
        }
        let (reply, answer) = oneshot::channel();
        let asked = self.shared.clock.now();
        // Sent for a lost lock too: the claim has to report the loss that its guard is told.
        let sent = self.commands.send(Command::Renew { ttl, asked, reply });
        if sent.is_err() || self.loss().is_some() {
            return Err(lost());
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Renews for the other guards when one of several guards goes, so that they have a whole lease before them. No
    /// caller waits for the answer. While it has not come, further guards that go don't ask again.
    pub(super) fn renew_in_background(&self) {
        let Some(ttl) = self.renewal else { return };
        let mut renewal = self.background_renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if renewal.as_mut().is_some_and(|answer| matches!(answer.try_recv(), Err(TryRecvError::Empty))) {
            return;
        }
        let (reply, answer) = oneshot::channel();
        // If sending fails, the lock is lost already.
        let asked = self.shared.clock.now();
        *renewal = self.commands.send(Command::Renew { ttl, asked, reply }).is_ok().then_some(answer);
    }

    /// Does the same as [`renew_in_background`](Self::renew_in_background) and waits for the answer. If no answer
    /// comes, the lease stays as it was.
    pub(super) async fn renew_and_wait(&self) {
        if let Some(ttl) = self.renewal {
            self.renew(ttl).await.ok();
        }
    }

    /// Returns the ending for a guard that goes while others remain.
    pub(super) fn ending_now(&self) -> Ending {
        match self.loss() {
            None => Ending::Released,
            Some(_) => Ending::Expired,
        }
    }

    /// Releases the lock for the last guard.
    pub(super) async fn release(self) -> Ending {
        if self.home.is_inherited() {
            return Ending::Expired;
        }
        let (reply, answer) = oneshot::channel();
        // If sending fails, the lock was lost before: the sender of the answer is gone, and the answer says so.
        let ask = || drop(self.commands.send(Command::Release(reply)));
        let answer = self.claim_future.answer(self.home.caller(), ask, answer);
        let ending = pin!(async {
            let mut answer = pin!(answer);
            loop {
                let until = self.state.borrow().until;
                match self.shared.clock.until(until, &mut answer).await {
                    Some(ending) => return ending.unwrap_or(Ending::Expired),
                    // Renewed in between, while a `min_hold` is waited for.
                    None if self.state.borrow().until > until => {}
                    None => return Ending::Expired,
                }
            }
        });
        self.home.within(ending).await
    }

    /// Returns why the lock is lost, if it is.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let State { until, at_end, lost } = *self.state.borrow();
        lost.or_else(|| (until <= self.shared.clock.now()).then_some(at_end))
            .or_else(|| self.state.has_changed().is_err().then_some(LossReason::RuntimeEnded))
            .or_else(|| self.home.is_inherited().then_some(LossReason::RuntimeEnded))
    }

    pub(super) fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.name), error)
    }
}
