//! A hold: what all guards of one acquisition share. It reads only the clock and what the claim reports.

use std::any::Any;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::acquisition::{Command, GuardParts, ReleaseOutcome, Shared, Terms, Validity};
use crate::clock::Instant;
use crate::driver::Lease;
use crate::ending::{Completion, Ending, LossReason};
use crate::error::{Effect, Error, Result};
use crate::owner::OwnerBytes;
use crate::process::Shares;
use crate::runtime::{RunToCompletion, RuntimeHandle, Unanswered};
use crate::token::FencingToken;

/// A held lock. The last guard that drops it releases the lock.
pub(crate) struct Hold {
    pub(super) terms: Arc<Terms>,
    pub(super) granted: GuardParts,
    pub(super) shared: Shares<Shared>,
    /// The answer to a renewal that no caller waits for.
    background_renewal: Mutex<Option<oneshot::Receiver<Result<Duration>>>>,
    claim_future: Arc<RunToCompletion>,
    /// The registration by which a reentrant owner finds this hold again, until it is dropped with the hold.
    registration: OnceLock<Box<dyn Any + Send + Sync>>,
    // Last field, dropped last: a dedicated client's last guard first tells its claim to leave, and then waits for
    // that.
    pub(super) runtime: Shares<RuntimeHandle>,
}

impl Hold {
    pub(crate) fn new(
        terms: Arc<Terms>,
        granted: GuardParts,
        claim_future: Arc<RunToCompletion>,
        shared: Shares<Shared>,
        runtime: Shares<RuntimeHandle>,
    ) -> Hold {
        Hold {
            terms,
            granted,
            shared,
            background_renewal: Mutex::default(),
            claim_future,
            registration: OnceLock::new(),
            runtime,
        }
    }

    /// Keeps `registration`, by which a reentrant owner finds this hold, for as long as the hold lasts.
    pub(crate) fn register(&self, registration: impl Any + Send + Sync) {
        // A hold is registered once, by the task that entered first.
        let _: Result<(), _> = self.registration.set(Box::new(registration));
    }

    /// Marks that a user has a guard of this hold.
    pub(super) fn mark_handed_over(&self) {
        self.granted.guard_end.mark_handed_over();
    }

    pub(super) fn valid_for(&self) -> Duration {
        match self.loss() {
            None => self.validity().valid_until.since(self.shared.clock.now()),
            Some(_) => Duration::ZERO,
        }
    }

    /// Waits for the loss that the claim tells, or for the deadline: the claim tells nothing while the client's runtime
    /// stands still.
    pub(super) async fn lost(&self) -> LossReason {
        self.at_risk(Duration::ZERO).await
    }

    pub(super) async fn at_risk(&self, before: Duration) -> LossReason {
        let (clock, guard_end) = (&self.shared.clock, &self.granted.guard_end);
        let watch = self.runtime.here(async {
            loop {
                // Made before the look, so that it misses nothing that is told from here on.
                let told = guard_end.notified();
                if guard_end.is_cut() {
                    return guard_end.validity().lost.unwrap_or(LossReason::RuntimeEnded);
                }
                let Validity { valid_until, at_end, lost } = guard_end.validity();
                if lost.is_some() || valid_until.since(clock.now()) <= before {
                    return lost.unwrap_or(at_end);
                }
                let at = Instant::from_origin(valid_until.since_origin().saturating_sub(before));
                tokio::select! {
                    biased;
                    () = told => {}
                    () = clock.sleep_until(at) => {}
                }
            }
        });
        watch.await.unwrap_or(LossReason::RuntimeEnded)
    }

    pub(super) async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let lost = || self.loss().unwrap_or(LossReason::Expired).to_error();
        if self.runtime.is_inherited() {
            return Err(lost());
        }
        let (reply, answer) = oneshot::channel();
        let asked = self.shared.clock.now();
        // Sent for a lost lock too: the claim has to report the loss that its guard is told.
        let sent = self.granted.guard_end.ask(Command::Renew { ttl, asked, reply });
        if sent.is_err() || self.loss().is_some() {
            return Err(lost());
        }
        let patience = self.shared.patience_for(self.terms.ttl);
        match self.runtime.answer(&self.shared.clock, patience, answer).await {
            Ok(Ok(answer)) => answer,
            Err(why @ Unanswered::StandsStill) if self.loss().is_none() => {
                Err(self.runtime.unanswered(why, Effect::Unknown))
            }
            Ok(Err(_)) | Err(_) => Err(lost()),
        }
    }

    /// Renews for the other guards when one of several guards goes, so that they have a whole lease before them. No
    /// caller waits for the answer. While it has not come, further guards that go don't retry.
    pub(super) fn renew_in_background(&self) {
        let Some(ttl) = self.renewal() else { return };
        let mut renewal = self.background_renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if renewal.as_mut().is_some_and(|answer| matches!(answer.try_recv(), Err(TryRecvError::Empty))) {
            return;
        }
        let (reply, answer) = oneshot::channel();
        // If sending fails, the lock is lost already.
        let asked = self.shared.clock.now();
        *renewal = self.granted.guard_end.ask(Command::Renew { ttl, asked, reply }).is_ok().then_some(answer);
    }

    /// Renews as [`renew_in_background`](Self::renew_in_background) and waits for the answer. If no answer
    /// comes, the lease stays as it was.
    pub(super) async fn renew_and_wait(&self) {
        if let Some(ttl) = self.renewal() {
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
        let runtime = self.runtime.clone();
        let ending = runtime.here(async move {
            let (reply, answer) = oneshot::channel();
            // If sending fails, the lock was lost before: the sender of the answer is gone, and the answer says so.
            let ask = || drop(self.granted.guard_end.ask(Command::Release(reply)));
            let mut answer = pin!(self.claim_future.answer(self.runtime.caller(), ask, answer));
            loop {
                let valid_until = self.validity().valid_until;
                match self.shared.clock.until(valid_until, &mut answer).await {
                    Some(how) => return how.map_or(Ending::Expired, ReleaseOutcome::ending),
                    // Renewed in between, while a `min_hold` is waited for.
                    None if self.validity().valid_until > valid_until => {}
                    None => return Ending::Expired,
                }
            }
        });
        ending.await.unwrap_or(Ending::Expired)
    }

    /// Returns this holder as the server has it.
    ///
    /// # Errors
    ///
    /// `Unsupported` and `Invalid` for a lock that can't be left to its lease.
    pub(super) async fn to_be_left(&self) -> Result<OwnerBytes> {
        if self.shared.driver.info().lease == Lease::Session {
            return Err(Error::unsupported(
                "a lock ends with its client's session here, so none can be left to its lease",
            ));
        }
        if self.terms.max_hold.is_some() {
            return Err(Error::invalid("a lock with max_hold can't be left: nothing would end it then"));
        }
        if self.granted.holds.get() > 1 {
            return Err(Error::invalid(
                "a lock that was entered again can't be left before its other guards go",
            ));
        }
        let (driver, name) = (self.shared.driver.clone(), self.terms.name.clone());
        let patience = self.shared.patience_for(self.terms.ttl);
        let work = async move { driver.inspect(&name, patience).await };
        let shown = self.runtime.run(&self.shared.clock, patience, work).await?;
        let is_ours = |token: Option<FencingToken>| token.is_none_or(|token| token == self.granted.token);
        match (shown.holder, self.loss()) {
            (Some(holder), None) if is_ours(holder.token) => Ok(holder.owner),
            (_, lost) => Err(lost.unwrap_or(LossReason::Gone).to_error()),
        }
    }

    /// Completes the work for the only guard. A lock that was lost is not waited for longer than one call takes.
    pub(super) async fn complete(self) -> Completion {
        let (runtime, clock) = (self.runtime.clone(), self.shared.clock.clone());
        let patience = self.shared.patience_for(self.terms.ttl);
        let answer = runtime.answer(&clock, patience, async move {
            let (reply, answer) = oneshot::channel();
            // If sending fails, the lock was lost before: the sender of the answer is gone, and the answer says so.
            let ask = || drop(self.granted.guard_end.ask(Command::Complete(reply)));
            self.claim_future.answer(self.runtime.caller(), ask, answer).await
        });
        match answer.await {
            Ok(Ok(given_up)) => given_up.completion(),
            Ok(Err(_)) | Err(_) => Completion::Lost,
        }
    }

    /// Returns why the lock is lost, if it is.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        // Asked first: in a fork, a thread of the parent may hold the lock of the tie for ever.
        if self.runtime.is_inherited() {
            return Some(LossReason::RuntimeEnded);
        }
        let loss = self.validity().loss(self.shared.clock.now());
        loss.or_else(|| self.granted.guard_end.is_cut().then_some(LossReason::RuntimeEnded))
    }

    /// Returns the ttl of a renewal that the caller did not ask for; `None` for a fixed lease.
    fn renewal(&self) -> Option<Duration> {
        self.terms.renewed.then_some(self.terms.ttl)
    }

    /// Returns what the claim has told last.
    fn validity(&self) -> Validity {
        self.granted.guard_end.validity()
    }

    pub(super) fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }
}
