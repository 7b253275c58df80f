//! The life of a claim: enter, keep, leave. One future owns the claim throughout. A caller that goes away at any moment
//! leaves nothing behind on the server.

mod complete;
mod enter;
mod event_reporter;
mod guard_link;
mod held;
mod keep;
mod leave;
mod order;
mod outcome;
mod pass;
mod renew;
mod shared;
mod terms;
mod validity;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::driver::{Attempt, Claim, HoldCount, Queueing, Request};
use crate::ending::LossReason;
use crate::error::{Effect, Error, Result};
use crate::events::Event;
use crate::local_queue::{Asked, Turn};
use crate::owner::Owner;
use crate::runtime::{CountedTask, lacking};

use event_reporter::EventReporter;
use held::{GuardedLock, Held};

pub(crate) use order::{Command, ReleaseOutcome};
pub(crate) use outcome::{Answer, GuardParts, Outcome};
pub(crate) use shared::{LONGEST_PATIENCE, Shared};
pub(crate) use terms::Terms;
pub(crate) use validity::{Validity, less_margin};

/// The caller and the guard that a claim still has to tell its outcome. Outlives a panic of the driver.
struct Recipients {
    /// The caller that waits for the answer.
    caller: Option<oneshot::Sender<Answer>>,
    /// The lock of a guard, until the claim starts to release it.
    guarded: Option<GuardedLock>,
}

/// One claim and all that is known of it.
pub(crate) struct Acquisition {
    shared: Arc<Shared>,
    terms: Arc<Terms>,
    owner: Owner,
    waits: Queueing,
    holds: HoldCount,
    /// When the caller's wait is over.
    wait_ends: Option<Instant>,
    /// The longest ttl that the server was asked for, even if it has not answered.
    longest_ttl: Duration,
    /// When the last lease that the server was asked for ends at the latest, unless a request came to it later than its
    /// answer shows.
    lease_ends_by: Instant,
    /// Made when this claim's turn has come. A task that waits behind others of its client has none.
    claim: Option<Box<dyn Claim>>,
    listening: Push,
    on_server: OnServer,
    reporter: EventReporter,
    /// Keeps this claim counted until everything else is over.
    _counted_task: CountedTask,
}

/// The claim's ability to wait for `changed`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Push {
    NotYet,
    Yes,
    /// The server can't push to this client.
    Never,
}

/// The remains of this owner on the server, as far as they are possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnServer {
    Nothing,
    Something,
    /// Something is left, or may still come to be, up to this moment: an attempt of unknown outcome is on its way.
    InFlightUntil(Instant),
}

impl Acquisition {
    pub(crate) fn new(
        shared: Arc<Shared>,
        counted_task: CountedTask,
        terms: Arc<Terms>,
        waits: Queueing,
        wait_ends: Option<Instant>,
    ) -> Acquisition {
        let (owner, began) = (Owner::mint(&shared.random), shared.clock.now());
        Acquisition {
            reporter: EventReporter::new(shared.clone(), terms.clone(), owner, began),
            longest_ttl: terms.ttl,
            shared,
            terms,
            owner,
            waits,
            holds: HoldCount::default(),
            wait_ends,
            claim: None,
            lease_ends_by: began,
            listening: Push::NotYet,
            on_server: OnServer::Nothing,
            _counted_task: counted_task,
        }
    }

    /// Enters, keeps and leaves. A panic on the way, for example of the driver, ends this. What may then be left on the
    /// server is released all the same, but not while a guard that was handed over may rely on it.
    pub(crate) async fn live(mut self: Box<Self>, caller: oneshot::Sender<Answer>) {
        let mut recipients = Recipients { caller: Some(caller), guarded: None };
        let Err(panic) = AssertUnwindSafe(self.run(&mut recipients)).catch_unwind().await else { return };
        let error = self.at("claim", lacking(&*panic).unwrap_or_else(cut_short));
        drop(panic);
        self.trouble("claim", &error);
        if self.claim.is_some() {
            self.on_server = OnServer::InFlightUntil(self.now() + self.patience());
        }
        if let Some(caller) = recipients.caller.take() {
            self.answer_no(caller, Outcome::Failed(error));
        }
        // Boxed, so the future of every claim does not reserve space for it.
        Box::pin(self.end_after_panic(recipients.guarded.take())).await;
    }

    async fn end_after_panic(&mut self, guarded: Option<GuardedLock>) {
        let asker = match guarded {
            Some(mut guarded) => self.wait_after_panic(&mut guarded).await,
            None => None,
        };
        // `wait_after_panic` has told the loss to a guard that was handed over. Otherwise the panic came during the
        // release.
        self.reporter.lost(LossReason::RuntimeEnded);
        // If the driver panics again, there is nothing else to ask it for.
        let _: std::thread::Result<()> = AssertUnwindSafe(self.withdraw()).catch_unwind().await;
        // The caller that asked for the release learns from the closed channel that it was too late.
        drop(asker);
    }

    /// Each part is boxed by itself, because a claim that keeps its lock needs no space for the others.
    async fn run(&mut self, recipients: &mut Recipients) {
        self.reporter.asked();
        let Some(caller) = &mut recipients.caller else { return };
        let (mut turn, outcome) = Box::pin(self.come_in(caller)).await;
        let refusal = match outcome {
            Outcome::NotGranted(seen) => Outcome::NotGranted(seen),
            Outcome::Failed(e) => Outcome::Failed(e),
            Outcome::Granted(held) => {
                let guarded = recipients.guarded.insert(self.hand_over(held, recipients.caller.take()));
                let ended = self.keep(guarded, &mut turn).await;
                // From here on the work under the lock, or its time, is over.
                if let Some(guarded) = recipients.guarded.take() {
                    Box::pin(self.leave(guarded, ended, turn)).await;
                }
                return;
            }
        };
        Box::pin(self.leave_without(&mut recipients.caller, refusal, turn)).await;
    }

    /// Waits for this claim's turn, and enters.
    async fn come_in(&mut self, caller: &mut oneshot::Sender<Answer>) -> (Option<Turn>, Outcome<Box<Held>>) {
        // It began late, because the client's runtime stood still: the caller has given up before.
        if caller.is_closed() {
            return (None, Outcome::Failed(enter::gone()));
        }
        let (turn, asked) = match self.take_turn(caller).await {
            Ok(arrived) => arrived,
            Err(e) => return (None, Outcome::Failed(e)),
        };
        let answered = self.make_claim(asked);
        let outcome = Box::pin(self.enter(caller, turn.as_ref(), answered)).await;
        (turn, outcome)
    }

    async fn leave_without(
        &mut self,
        waiting: &mut Option<oneshot::Sender<Answer>>,
        answer: Answer,
        turn: Option<Turn>,
    ) {
        if let Some(caller) = waiting.take() {
            self.answer_no(caller, answer);
        }
        drop(turn);
        self.withdraw().await;
    }

    /// Makes the driver's claim, or takes over the one with which the claim before this one has asked for the lock.
    /// Returns what the server has answered to that one, and when it was asked.
    fn make_claim(&mut self, asked: Option<Asked>) -> Option<(Instant, Result<Attempt>)> {
        let (claim, answered) = match asked {
            Some(Asked { claim, at, outcome }) => (claim, Some((at, outcome))),
            None => (None, None),
        };
        self.claim = Some(claim.unwrap_or_else(|| self.shared.driver.claim(self.request())));
        answered.map(|(at, outcome)| self.attempted(at, outcome))
    }

    /// Returns what the driver is asked for.
    fn request(&self) -> Request {
        Request {
            name: self.terms.name.clone(),
            owner: self.owner,
            mode: self.terms.mode,
            ttl: self.terms.ttl,
            patience: self.patience(),
            waits: self.waits,
            label: self.terms.label.clone(),
            clock: self.shared.clock.clone(),
            holds: self.holds.clone(),
        }
    }

    /// Records what may be left on the server. An attempt that is on its way stays on its way.
    fn leaves(&mut self, on_server: OnServer) {
        self.on_server = match (self.on_server, on_server) {
            (OnServer::InFlightUntil(a), OnServer::InFlightUntil(b)) => OnServer::InFlightUntil(a.max(b)),
            (OnServer::InFlightUntil(a), _) => OnServer::InFlightUntil(a),
            (_, new) => new,
        };
    }

    /// Returns how long each call may take.
    fn patience(&self) -> Duration {
        self.shared.patience_for(self.terms.ttl)
    }

    fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }

    fn trouble(&self, operation: &'static str, error: &Error) {
        self.report(&Event::Trouble { name: &self.terms.name, operation, error });
    }

    fn report(&self, event: &Event<'_>) {
        self.shared.events.report(event);
    }
}

/// Returns the driver's claim of a life whose turn has come.
fn made(claim: &mut Option<Box<dyn Claim>>) -> &mut dyn Claim {
    claim.as_deref_mut().expect("the claim is made when its turn comes")
}

/// Returns the error after a panic of the driver or of this crate. The panic's message is not passed on: a driver may
/// have put the server's address there, with a password. The program's panic hook has received it.
fn cut_short() -> Error {
    Error::unavailable(
        Effect::Unknown,
        "the claim ended in a panic, which is a bug; what it may have left on the server is released",
    )
}
