//! Keeping: renew in time and tell a loss before another owner can hold, until the guard releases the lock, completes
//! its work, or is dropped.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;

use super::complete::SlotOutcome;
use super::guard_link::Commands;
use super::held::{Ask, GuardedLock, Held, WATCHED_AFTER};
use super::validity::with_margin;
use super::{Acquisition, Answer, Command, GuardParts, Outcome, ReleaseOutcome, made};
use crate::clock::Instant;
use crate::ending::LossReason;
use crate::local_queue::Turn;

/// The end of holding a lock.
pub(super) struct Ended {
    /// Why the lock was lost, if it was.
    pub(super) lost: Option<LossReason>,
    /// The caller that waits for the release.
    pub(super) asker: Option<oneshot::Sender<ReleaseOutcome>>,
    /// The slot that the lock is kept for after its work.
    pub(super) kept: KeptFor,
}

/// For how long a lock stays taken after the work under it has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptFor {
    /// Not at all: it is released.
    Nothing,
    /// Until its lease ends, with its slot or, if it has none or the server did not answer, by itself. It is not released.
    ItsLease,
    /// Until its slot's end, which has come: it is released.
    ASlotThatIsOver,
}

impl Ended {
    /// The lock is released, unless the server has ended its lease.
    fn to_release(lost: Option<LossReason>, asker: Option<oneshot::Sender<ReleaseOutcome>>) -> Ended {
        Ended { lost, asker, kept: KeptFor::Nothing }
    }
}

/// Why a period of holding ended.
enum Kept<T> {
    Stopped(T),
    /// The lock was lost, even if `stop` has resolved since.
    Lost(LossReason),
}

impl Acquisition {
    /// Hands over the guard. If the `caller` has gone, the guard is gone, too, which the commands tell.
    pub(super) fn hand_over(
        &mut self,
        held: Box<Held>,
        caller: Option<oneshot::Sender<Answer>>,
    ) -> GuardedLock {
        self.reporter.granted(held.token, held.since);
        let (commands, guard_end) = held.link();
        if let Some(caller) = caller {
            let (owner, token, holds) = (self.owner, held.token, self.holds.clone());
            drop(caller.send(Outcome::Granted(GuardParts { owner, token, guard_end, holds })));
        }
        GuardedLock { held, commands }
    }

    /// Keeps the lock until its guard releases it, completes its work or is dropped, or until it is lost.
    ///
    /// Rare steps are boxed, so the future of every held lock does not reserve space for them.
    pub(super) async fn keep(&mut self, guarded: &mut GuardedLock, turn: &mut Option<Turn>) -> Ended {
        loop {
            let GuardedLock { held, commands, .. } = &mut *guarded;
            let asker = match self.keep_until(held, commands.next()).await {
                Kept::Stopped(Some(Command::Renew { ttl, asked, reply })) => {
                    let outcome = match held.answered_since(asked) {
                        Some(error) => Err(error),
                        None => Box::pin(self.confirm(held, Ask::Keep(ttl))).await,
                    };
                    let _: Result<(), _> = reply.send(outcome);
                    continue;
                }
                Kept::Stopped(Some(Command::Complete(asker))) => match Box::pin(self.completed(held)).await {
                    None => Some(asker),
                    Some((kept, lost)) => return Ended { lost, asker: Some(asker), kept },
                },
                Kept::Stopped(Some(Command::Release(asker))) => Some(asker),
                Kept::Stopped(None) => None,
                Kept::Lost(cause @ (LossReason::Revoked | LossReason::Session)) => {
                    // From now on the next task of this process may queue for it.
                    drop(turn.take());
                    // By then the server has ended the lease. A release before that would let the lock be granted while
                    // the guard's work goes on.
                    let over = held.valid_until() + (with_margin(held.lease) - held.lease) + self.patience();
                    let asker = Box::pin(self.wait_for_guard(commands, cause, over)).await;
                    return Ended::to_release(Some(cause), asker);
                }
                Kept::Lost(cause) => return Ended::to_release(Some(cause), None),
            };
            let lost = match self.terms.min_hold {
                Some(least) if guarded.commands.guard_was_handed_over() => {
                    Box::pin(self.hold_for_min(&mut guarded.held, least)).await
                }
                _ => None,
            };
            return Ended::to_release(lost, asker);
        }
    }

    /// Keeps the slot of a lock whose work is done. Returns `None` if the slot is over: then it is released as any other
    /// lock. A lock without a slot is left to its lease.
    async fn completed(&mut self, held: &mut Held) -> Option<(KeptFor, Option<LossReason>)> {
        let Some(slot) = held.slot.as_deref().copied() else {
            return Some(match self.outlast_attempts(held).await {
                None => (KeptFor::ItsLease, None),
                Some(cause) => (KeptFor::Nothing, Some(cause)),
            });
        };
        Some(match self.complete(held, slot).await {
            SlotOutcome::Kept => (KeptFor::ItsLease, None),
            SlotOutcome::KeptUntilNow => (KeptFor::ASlotThatIsOver, None),
            SlotOutcome::Over => return None,
            SlotOutcome::Lost(cause) => (KeptFor::Nothing, Some(cause)),
            SlotOutcome::Unanswered(cause) => (KeptFor::ItsLease, Some(cause)),
        })
    }

    /// Notifies the guard of the loss after a panic, because nothing renews the lock any more. The guard's work may go
    /// on: as after a revoke, waits until the guard goes, at most until the certain part of the lease is over. This
    /// claim can't ask the server any more. Returns the caller that waits for the release, if there is one.
    pub(super) async fn wait_after_panic(
        &mut self,
        guarded: &mut GuardedLock,
    ) -> Option<oneshot::Sender<ReleaseOutcome>> {
        let GuardedLock { held, commands, .. } = guarded;
        let cause = self.detect_loss(held).unwrap_or(LossReason::RuntimeEnded);
        held.lose(cause, &mut self.reporter);
        self.wait_for_guard(commands, cause, held.valid_until()).await
    }

    /// Waits until the guard goes, at most until `over`. Until its deadline no other claim gets what was revoked, nor
    /// what is left in a session that was given up. If the guard goes before `over`, the work that it protected has
    /// ended, and the release that follows frees the name. Returns the caller that waits for the release, if there is
    /// one.
    async fn wait_for_guard(
        &mut self,
        commands: &mut Commands,
        cause: LossReason,
        over: Instant,
    ) -> Option<oneshot::Sender<ReleaseOutcome>> {
        let clock = self.shared.clock.clone();
        loop {
            tokio::select! {
                biased;
                order = commands.next() => match order {
                    Some(Command::Renew { reply, .. }) => {
                        let lost = self.at("renew", cause.to_error());
                        let _: Result<(), _> = reply.send(Err(lost));
                    }
                    Some(Command::Release(asker) | Command::Complete(asker)) => return Some(asker),
                    None => return None,
                },
                () = clock.sleep_until(over) => return None,
            }
        }
    }

    /// Keeps the lock without its guard until `least` has passed since the grant. Only called if a user has had the
    /// guard.
    async fn hold_for_min(&mut self, held: &mut Held, least: Duration) -> Option<LossReason> {
        let over = held.since + least;
        self.hold_until(held, over).await
    }

    /// Keeps the lock without its guard until `over`. Returns why it was lost, if it was.
    pub(super) async fn hold_until(&mut self, held: &mut Held, over: Instant) -> Option<LossReason> {
        let clock = self.shared.clock.clone();
        match self.keep_until(held, clock.sleep_until(over)).await {
            Kept::Stopped(()) => None,
            Kept::Lost(cause) => Some(cause),
        }
    }

    /// Renews in time, until `stop` resolves or the lock is lost.
    async fn keep_until<T>(&mut self, held: &mut Held, stop: impl Future<Output = T>) -> Kept<T> {
        let mut stop = pin!(stop);
        loop {
            // A guard that was notified of a loss must not be told otherwise, whatever noticed the loss first.
            if let Some(cause) = self.detect_loss(held) {
                return Kept::Lost(cause);
            }
            let wakes_at = held.watch_at.map_or(held.next(), |at| at.min(held.next()));
            tokio::select! {
                biased;
                order = &mut stop => match self.detect_loss(held) {
                    // Lost by the clock, which the guard reads too: this task did not run when the lease ended.
                    Some(cause) => return Kept::Lost(cause),
                    None => return Kept::Stopped(order),
                },
                // Kept in mind, whatever else is due.
                () = made(&mut self.claim).changed() => held.make_due(self.now()),
                () = self.shared.clock.sleep_until(wakes_at) => {}
            }
            let next = held.next();
            if held.watch_at.is_some_and(|at| at <= self.now()) && self.now() < next {
                let shared = self.shared.clone();
                tokio::select! {
                    biased;
                    order = &mut stop => match self.detect_loss(held) {
                        Some(cause) => return Kept::Lost(cause),
                        None => return Kept::Stopped(order),
                    },
                    // Boxed, as the other rare steps.
                    () = Box::pin(self.watch(held)) => {}
                    // The renewal does not wait for the watch.
                    () = shared.clock.sleep_until(next) => held.watch_at = Some(next + WATCHED_AFTER),
                }
            }
            if self.detect_loss(held).is_none()
                && let Some(ask) = held.due(self.now(), self.terms.ttl)
            {
                let failed = Box::pin(self.confirm(held, ask)).await.err();
                held.failed = failed.map(|error| (self.now(), error));
            }
        }
    }

    /// Returns why the lock is lost, if it is. It is the same answer that the guard gives now. Reports the loss if that
    /// was not done yet.
    pub(super) fn detect_loss(&mut self, held: &Held) -> Option<LossReason> {
        if self.now() >= held.valid_until() {
            held.lose(held.at_end(), &mut self.reporter);
        }
        held.lost()
    }
}
