//! Entering: attempt, listen, attempt, wait, until the lock is granted or the caller stops waiting.

use std::time::Duration;

use tokio::sync::oneshot;

use super::keep::Held;
use super::{Answer, Life, OnServer, Push, Refused, believed, certain};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Attempt, Busy, Queueing, Wakes};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::events::Refusal;
use crate::local_queue::{PASS_PAUSE, Turn};

impl Life {
    /// Waits for this claim's turn. Waiters queue in front of the server. A claim that does not wait asks the server at
    /// once, because only the server knows whether the lock is free.
    pub(super) async fn take_turn(&mut self, caller: &mut oneshot::Sender<Answer>) -> Result<Option<Turn>> {
        if self.waits == Queueing::No {
            return Ok(None);
        }
        tokio::select! {
            biased;
            turn = self.shared.local_queues.enter(&self.terms.name) => Ok(Some(turn)),
            () = caller.closed() => Err(gone()),
            () = self.shared.closing() => Err(shutting_down()),
        }
    }

    /// Attempts until the lock is granted or refused, the time is over, or no caller waits for the answer.
    pub(super) async fn enter(
        &mut self,
        caller: &mut oneshot::Sender<Answer>,
        turn: Option<&Turn>,
    ) -> Result<Result<Held, Refused>> {
        let mut turns_owed = turn.map_or(0, Turn::turns_owed);
        self.let_others_pass(&mut turns_owed, caller).await?;
        let mut failures = 0;
        loop {
            let asked = self.now();
            let pause = match self.attempt().await {
                Ok(Attempt::Granted(grant)) => {
                    let lease = believed(grant.valid_for, self.terms.ttl);
                    let until = asked + certain(lease, grant.age);
                    if until > self.now() {
                        turn.inspect(|turn| turn.granted());
                        return Ok(Ok(self.held(grant.token, asked, until, lease)));
                    }
                    // Too late to rely on. But the lock is ours: the next attempt prolongs it, and leaving releases it.
                    // A release in between could arrive late and free what the next attempt was granted.
                    self.listening = Push::NotYet;
                    let e = self.at("acquire", too_slow());
                    if self.waits == Queueing::No {
                        return Err(e);
                    }
                    self.troubled(asked, &e, turn);
                    failures += 1;
                    backoff::after_error(failures, &self.shared.random)
                }
                Ok(Attempt::Busy(busy)) => {
                    turn.inspect(|turn| turn.busy(asked, busy.holder.as_deref()));
                    failures = 0;
                    if self.waits == Queueing::No || self.wait_ends.is_some_and(|at| at <= self.now()) {
                        return Ok(Err(Refused(busy.holder)));
                    }
                    if self.listen().await {
                        continue; // attempt again at once: a release before the listening would go unnoticed
                    }
                    self.pause(busy.free_in)
                }
                Err(e) if e.is_transient() && self.waits == Queueing::Queued => {
                    self.troubled(asked, &e, turn);
                    failures += 1;
                    e.retry_in().unwrap_or_else(|| backoff::after_error(failures, &self.shared.random))
                }
                Err(e) => return Err(e),
            };
            let woken = self.wait(pause, caller).await?;
            if woken && turns_owed > 0 {
                turns_owed -= 1;
                self.let_others_pass(&mut turns_owed, caller).await?;
            }
        }
    }

    fn troubled(&self, asked: Instant, error: &Error, turn: Option<&Turn>) {
        self.trouble("attempt", error);
        turn.inspect(|turn| turn.trouble(asked, error.to_string()));
    }

    async fn attempt(&mut self) -> Result<Attempt> {
        let asked = self.now();
        self.shared.process.only().await;
        let outcome = self.claim.attempt().await;
        match &outcome {
            Ok(Attempt::Granted(_) | Attempt::Busy(Busy { queued: true, .. })) => {
                self.leaves(OnServer::Something);
            }
            Ok(Attempt::Busy(_)) => {}
            Err(e) if e.may_have_taken_effect() => {
                self.leaves(OnServer::InFlightUntil(asked + self.patience));
            }
            // A server may refuse the second half of what it has begun.
            Err(e) if e.kind() == ErrorKind::Rejected => self.leaves(OnServer::Something),
            Err(_) => {}
        }
        outcome.map_err(|e| self.at("acquire", e))
    }

    /// Listens, if it doesn't yet. Returns whether it has just begun to.
    async fn listen(&mut self) -> bool {
        if self.listening != Push::NotYet {
            return false;
        }
        match self.claim.listen().await {
            Ok(()) => self.listening = Push::Yes,
            Err(e) if e.kind() == ErrorKind::Unsupported => self.listening = Push::Never,
            Err(e) => self.trouble("listen", &self.at("listen", e)),
        }
        self.listening == Push::Yes
    }

    /// Lets other clients have the turns that they are owed. A wake-up ends each turn. Silence means that no client
    /// wants the next turn, or that one takes longer: the next attempt shows which.
    async fn let_others_pass(
        &mut self,
        turns_owed: &mut u32,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<()> {
        if *turns_owed > 0 {
            self.listen().await;
        }
        while *turns_owed > 0 && self.wait(PASS_PAUSE, caller).await? {
            *turns_owed -= 1;
        }
        Ok(())
    }

    /// Returns how long to wait for a wake-up before the next attempt.
    fn pause(&self, free_in: Option<Duration>) -> Duration {
        let random = &self.shared.random;
        let pushed = self.listening == Push::Yes && self.shared.driver.info().wakes == Wakes::Pushed;
        let look = match pushed {
            true => backoff::safety(random),
            false => backoff::poll(self.now().since(self.began), random),
        };
        free_in.map_or(look, |free_in| look.min(backoff::after_lease(free_in, random)))
    }

    /// Waits for a wake-up, or for `pause`. Returns whether a wake-up came.
    async fn wait(&mut self, pause: Duration, caller: &mut oneshot::Sender<Answer>) -> Result<bool> {
        let clock = &self.shared.clock;
        tokio::select! {
            biased;
            () = caller.closed() => Err(gone()),
            () = self.shared.closing() => Err(shutting_down()),
            () = self.claim.changed(), if self.listening == Push::Yes => Ok(true),
            () = clock.sleep(pause) => Ok(false),
        }
    }

    /// Answers a caller that gets no guard. The caller may have gone.
    pub(super) fn answer_no(&mut self, caller: oneshot::Sender<Answer>, answer: Answer) {
        let why = match &answer {
            Ok(_) => Refusal::Busy,
            Err(_) if caller.is_closed() => Refusal::GivenUp,
            Err(_) => Refusal::Error,
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
fn gone() -> Error {
    Error::unavailable(Effect::NotApplied, "the caller went away")
}

fn shutting_down() -> Error {
    Error::unavailable(Effect::NotApplied, "this client is shutting down")
}
