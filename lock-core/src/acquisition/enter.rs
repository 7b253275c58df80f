//! Entering: attempt, listen, attempt, wait, until the lock is granted or the caller stops waiting.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::sync::oneshot;

use super::held::Held;
use super::validity::less_margin;
use super::{Acquisition, Answer, OnServer, Outcome, Push, made};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Attempt, Busy, Grant, Queueing, Request, Takeovers, Wakes};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::events::Refusal;
use crate::local_queue::{Arrival, Asked, Joined, Seen, Turn};

impl Acquisition {
    /// Waits for this claim's turn. Waiters queue in front of the server. A claim that does not wait asks the server at
    /// once, because only the server knows whether the lock is free.
    pub(super) async fn take_turn(
        &mut self,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<(Option<Turn>, Option<Asked>)> {
        if self.waits == Queueing::No {
            return Ok((None, None));
        }
        let mut waiting = match self.shared.local_queues.join(&self.terms.name, || self.as_successor()) {
            Joined::Turn(turn) => return Ok((Some(turn), None)),
            Joined::Waits(waiting) => waiting,
        };
        let stopped = tokio::select! {
            biased;
            Arrival { turn, asked } = waiting.arrival() => return Ok((Some(turn), asked)),
            () = caller.closed() => gone(),
            () = self.shared.closing() => shutting_down(),
        };
        match waiting.leave().await {
            // The claim before this one has asked for it: what the server has done is dealt with as after an attempt.
            Some(Arrival { turn, asked: Some(asked) }) => Ok((Some(turn), Some(asked))),
            Some(Arrival { asked: None, .. }) | None => Err(stopped),
        }
    }

    /// Returns what the claim before this one can ask the server for, in place of this one. A lock that is held once per
    /// period has more to ask, before and after.
    fn as_successor(&self) -> Option<Request> {
        let is_one_request = self.shared.driver.info().takeovers == Takeovers::InOneRequest;
        (is_one_request && self.terms.period.is_none()).then(|| self.request())
    }

    /// Attempts until the lock is granted or refused, the time is over, or no caller waits for the answer.
    pub(super) async fn enter(
        &mut self,
        caller: &mut oneshot::Sender<Answer>,
        turn: Option<&Turn>,
        mut answered: Option<(Instant, Result<Attempt>)>,
    ) -> Outcome<Box<Held>> {
        if let Err(unsupported) = self.check_period().await {
            return Outcome::Failed(unsupported);
        }
        let mut turns_owed = if answered.is_none() { self.turns_owed(turn) } else { 0 };
        // Boxed, as the wait below, so the future of every held lock does not reserve space for it.
        if turns_owed > 0
            && let Err(stopped) = Box::pin(self.let_others_pass(turn, &mut turns_owed, caller)).await
        {
            return Outcome::Failed(stopped);
        }
        let mut failures = 0;
        loop {
            let pause = match self.try_to_enter(turn, &mut failures, answered.take()).await {
                ControlFlow::Break(outcome) => return outcome,
                ControlFlow::Continue(pause) => pause,
            };
            let waiting = Box::pin(self.wait_for_turn(pause, turn, &mut turns_owed, caller));
            if let Err(stopped) = waiting.await {
                return Outcome::Failed(stopped);
            }
        }
    }

    /// Attempts, unless the server has `answered` already, and attempts again at once if the claim has just begun to
    /// listen: a release between the attempt and the listening would go unnoticed. An attempt that has begun to listen
    /// itself needs no second one. Returns the outcome, or how long to wait for a wake-up before the next attempt.
    async fn try_to_enter(
        &mut self,
        turn: Option<&Turn>,
        failures: &mut u32,
        mut answered: Option<(Instant, Result<Attempt>)>,
    ) -> ControlFlow<Outcome<Box<Held>>, Duration> {
        loop {
            let (asked, outcome) = match answered.take() {
                Some(answered) => answered,
                None => self.attempt().await,
            };
            let error = match outcome {
                Ok(Attempt::Granted(grant)) => match self.granted(grant, asked).await {
                    Ok(held) => {
                        turn.inspect(|turn| turn.granted());
                        return ControlFlow::Break(Outcome::Granted(held));
                    }
                    // The lock is ours: the next attempt prolongs it, and leaving releases it. A release in between
                    // could arrive late and free what the next attempt was granted.
                    Err(e) => {
                        self.listening = Push::NotYet;
                        e
                    }
                },
                Ok(Attempt::Busy(busy)) => {
                    turn.inspect(|turn| turn.busy(asked, busy.holder.as_deref()));
                    *failures = 0;
                    if self.waits == Queueing::No || self.wait_ends.is_some_and(|at| at <= self.now()) {
                        return ControlFlow::Break(Outcome::NotGranted(Seen::Held(busy.holder)));
                    }
                    if busy.listens {
                        self.listening = Push::Yes;
                    } else if self.listen().await {
                        continue;
                    }
                    return ControlFlow::Continue(self.pause(&busy));
                }
                Err(e) => e,
            };
            if self.waits == Queueing::No || !error.is_transient() {
                return ControlFlow::Break(Outcome::Failed(error));
            }
            *failures += 1;
            return ControlFlow::Continue(self.pause_after(asked, &error, turn, *failures));
        }
    }

    /// Reports an attempt that has failed, and returns how long to wait before the next one.
    fn pause_after(&self, asked: Instant, error: &Error, turn: Option<&Turn>, failures: u32) -> Duration {
        self.trouble("attempt", error);
        turn.inspect(|turn| turn.trouble(asked, error));
        error.retry_in().unwrap_or_else(|| backoff::after_error(failures, &self.shared.random))
    }

    /// Returns the lock that was granted to the attempt of `asked`. An error if the answer came too late to rely on it, or
    /// if the server did not tell in which slot the grant was.
    async fn granted(&mut self, grant: Grant, asked: Instant) -> Result<Box<Held>> {
        let slot = self.slot_of_grant().await?;
        let mut held = self.held(grant, asked).ok_or_else(|| self.at("acquire", too_slow()))?;
        held.slot = slot.map(Box::new);
        Ok(held)
    }

    /// Returns the lock that was granted to the attempt of `asked`; `None` if the answer came too late to rely on it.
    fn held(&self, grant: Grant, asked: Instant) -> Option<Box<Held>> {
        let Grant { token, valid_for, age } = grant;
        // No more than was asked for: a server whose clock was set back says more, and takes it back when its clock is
        // set right.
        let lease = valid_for.min(self.terms.ttl);
        let valid_until = asked + less_margin(lease, age);
        if valid_until <= self.now() {
            return None;
        }
        let end = self.terms.max_hold.map(|most| asked + most);
        let mut held = Box::new(Held::new(token, asked, valid_until, lease, end));
        held.renew_at = self.terms.renewed.then(|| self.next_renewal(asked, lease, self.terms.ttl));
        Some(held)
    }

    async fn attempt(&mut self) -> (Instant, Result<Attempt>) {
        let asked = self.now();
        self.shared.process.only().await;
        let outcome = made(&mut self.claim).attempt().await;
        self.attempted(asked, outcome)
    }

    /// Records what the attempt of `asked` leaves on the server.
    pub(super) fn attempted(
        &mut self,
        asked: Instant,
        outcome: Result<Attempt>,
    ) -> (Instant, Result<Attempt>) {
        self.lease_ends_by = self.lease_ends_by.max(self.now() + self.terms.ttl);
        match &outcome {
            Ok(Attempt::Granted(_) | Attempt::Busy(Busy { queued: true, .. })) => {
                self.leaves(OnServer::Something);
            }
            Ok(Attempt::Busy(_)) => {}
            Err(e) if e.may_have_taken_effect() => {
                self.leaves(OnServer::InFlightUntil(asked + self.patience()));
            }
            // A server may refuse the second half of what it has begun.
            Err(e) if e.kind() == ErrorKind::Rejected => self.leaves(OnServer::Something),
            Err(_) => {}
        }
        (asked, outcome.map_err(|e| self.at("acquire", e)))
    }

    /// Listens, if it doesn't yet. Returns whether it has just begun to.
    pub(super) async fn listen(&mut self) -> bool {
        if self.listening != Push::NotYet {
            return false;
        }
        match made(&mut self.claim).listen().await {
            Ok(()) => {
                self.listening = Push::Yes;
                self.shared.events.listens();
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => self.listening = Push::Never,
            Err(e) => self.trouble("listen", &self.at("listen", e)),
        }
        self.listening == Push::Yes
    }

    /// Returns how long to wait for a wake-up before the next attempt.
    fn pause(&self, busy: &Busy) -> Duration {
        let random = &self.shared.random;
        let pushed = self.listening == Push::Yes && self.shared.driver.info().wakes == Wakes::Pushed;
        let look = match pushed && !busy.without_notification {
            true => backoff::safety(random),
            false => backoff::poll(self.now().since(self.reporter.began), random),
        };
        busy.free_in.map_or(look, |free_in| look.min(backoff::after_lease(free_in, random)))
    }

    /// Waits for a wake-up, or for `pause`. Returns whether a wake-up came.
    pub(super) async fn wait(
        &mut self,
        pause: Duration,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<bool> {
        let over = self.now() + pause;
        tokio::select! {
            biased;
            () = caller.closed() => Err(gone()),
            () = self.shared.closing() => Err(shutting_down()),
            () = made(&mut self.claim).changed(), if self.listening == Push::Yes => Ok(true),
            () = self.shared.clock.sleep_until(over) => Ok(false),
        }
    }

    /// Answers a caller that gets no guard. The caller may have gone.
    pub(super) fn answer_no(&mut self, caller: oneshot::Sender<Answer>, answer: Answer) {
        let why = match &answer {
            Outcome::Failed(_) if caller.is_closed() => Refusal::GivenUp,
            Outcome::Failed(_) => Refusal::Error,
            _ => Refusal::Busy,
        };
        self.reporter.not_granted(why);
        let _: Result<(), _> = caller.send(answer);
    }
}

fn too_slow() -> Error {
    Error::unavailable(
        Effect::NotApplied,
        "the server's answer took longer than the lease that it granted; ask for a longer ttl",
    )
}

/// The error for a caller that has gone: no caller reads it.
pub(super) fn gone() -> Error {
    Error::unavailable(Effect::NotApplied, "the caller went away")
}

fn shutting_down() -> Error {
    Error::unavailable(Effect::NotApplied, "this client is shutting down")
}
