//! The life of a claim, from top to bottom: enter, hold, leave. One future owns the claim throughout, so that a caller
//! who goes away, at any moment, leaves nothing behind on the server.

mod account;
mod enter;
mod hold;
mod leave;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};

use crate::client::Shared;
use crate::clock::Instant;
use crate::driver::{Cause, Claim, Entry, Request, Waits};
use crate::error::{Done, Error, Result};
use crate::events::Event;
use crate::gate::Turn;
use crate::guard::{Command, State};
use crate::keeper::Resident;
use crate::lock::Terms;
use crate::owner::Owner;
use crate::token::FencingToken;

use account::Account;
use hold::Given;

/// What a caller is answered.
pub(crate) type Answer = Result<Result<Granted, Refused>>;

/// Somebody else holds the lock; who, if the server's answer showed that.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Option<Box<Entry>>);

/// The makings of a guard.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) state: watch::Receiver<State>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// To be set when a user has the guard: `min_hold` counts only then.
    pub(crate) handed_over: Arc<AtomicBool>,
}

/// To whom a claim owes something: what outlives a panic of its driver.
struct People {
    /// Who waits for the answer.
    caller: Option<oneshot::Sender<Answer>>,
    /// What was handed over, until it is being given back.
    given: Option<Given>,
}

/// One claim and all that is known of it.
pub(crate) struct Life {
    shared: Arc<Shared>,
    terms: Terms,
    owner: Owner,
    patience: Duration,
    waits: Waits,
    /// When a caller's wait is over.
    wait_ends: Option<Instant>,
    /// The longest lease that the server was asked for, also where it has not answered.
    longest_ttl: Duration,
    claim: Box<dyn Claim>,
    began: Instant,
    listening: Listening,
    residue: Residue,
    account: Account,
    /// Counted until all else is over.
    _resident: Resident,
}

/// Whether `changed` can be waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    NotYet,
    Yes,
    /// The server can't push to this client.
    Never,
}

/// What may be left of this owner on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Residue {
    Nothing,
    Something,
    /// Or may yet come to be, up to this moment: an attempt of unknown outcome is on its way.
    UntilThen(Instant),
}

impl Life {
    pub(crate) fn new(
        shared: Arc<Shared>,
        resident: Resident,
        terms: Terms,
        waits: Waits,
        wait_ends: Option<Instant>,
    ) -> Life {
        let owner = Owner::mint(&shared.random);
        let patience = shared.patience_for(terms.ttl);
        let claim = shared.driver.claim(Request {
            name: terms.name.clone(),
            owner,
            mode: terms.mode,
            ttl: terms.ttl,
            patience,
            waits,
            label: terms.label.clone(),
            clock: shared.clock.clone(),
        });
        let (began, longest_ttl) = (shared.clock.now(), terms.ttl);
        let (listening, residue) = (Listening::NotYet, Residue::Nothing);
        let account = Account::new(shared.clone(), terms.name.clone(), owner, began);
        Life {
            shared,
            terms,
            owner,
            patience,
            waits,
            wait_ends,
            longest_ttl,
            claim,
            began,
            listening,
            residue,
            account,
            _resident: resident,
        }
    }

    /// Enters, holds, leaves. A panic on the way, of a driver for one, ends that; what may be left on the server then is
    /// given back all the same, but not while a guard that was handed over may count on it.
    pub(crate) async fn live(mut self, caller: oneshot::Sender<Answer>) {
        let mut people = People { caller: Some(caller), given: None };
        if AssertUnwindSafe(self.run(&mut people)).catch_unwind().await.is_ok() {
            return;
        }
        let error = self.at("claim", cut_short());
        self.trouble("claim", &error);
        self.residue = Residue::UntilThen(self.now() + self.patience);
        if let Some(caller) = people.caller.take() {
            self.answer_no(caller, Err(error));
        }
        let asker = match people.given.take() {
            Some(mut given) => self.forsake(&mut given).await,
            None => None,
        };
        // Told before, if it was handed over; or else that panicked which was to give it back.
        self.account.lost(Cause::RuntimeEnded);
        // One that panics again has nothing else to be asked.
        let _: std::thread::Result<()> = AssertUnwindSafe(self.withdraw()).catch_unwind().await;
        // Who asked for the release hears that it was too late.
        drop(asker);
    }

    async fn run(&mut self, people: &mut People) {
        self.account.asked();
        let Some(caller) = &mut people.caller else { return };
        let mut turn = match self.take_turn(caller).await {
            Ok(turn) => turn,
            Err(e) => return self.leave_without(&mut people.caller, Err(e), None).await,
        };
        match self.enter(caller, turn.as_ref()).await {
            Ok(Ok(held)) => {
                let given = people.given.insert(self.hand_over(held, people.caller.take()));
                let ended = self.hold(given, &mut turn).await;
                // From here on its work, or its time, is over.
                if let Some(Given { held, orders, .. }) = people.given.take() {
                    // What its guards still ask for is not read any more: they are told at once, and not when it has left.
                    drop(orders);
                    self.leave(held, ended, turn).await;
                }
            }
            Ok(Err(refused)) => self.leave_without(&mut people.caller, Ok(Err(refused)), turn).await,
            Err(e) => self.leave_without(&mut people.caller, Err(e), turn).await,
        }
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

    /// What was on its way stays on its way.
    fn leaves(&mut self, residue: Residue) {
        self.residue = match (self.residue, residue) {
            (Residue::UntilThen(a), Residue::UntilThen(b)) => Residue::UntilThen(a.max(b)),
            (Residue::UntilThen(a), _) => Residue::UntilThen(a),
            (_, new) => new,
        };
    }

    fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }

    fn trouble(&self, operation: &'static str, error: &Error) {
        self.tell(&Event::Trouble { name: &self.terms.name, operation, error });
    }

    fn tell(&self, event: &Event<'_>) {
        self.shared.events.tell(event);
    }
}

/// The part to count on of what is `left` of a lease: clocks' rates differ by up to 1 %, and have done so for the `age`
/// that the lease had before; and servers round to the millisecond.
pub(crate) fn certain(left: Duration, age: Duration) -> Duration {
    let margin = left.saturating_add(age) / 100;
    left.saturating_sub(margin).saturating_sub(Duration::from_millis(2))
}

/// What to believe of what the server says is left: no more than was asked for. A server whose clock was set back says
/// more, and takes it back when its clock is set right.
fn believed(left: Duration, asked_for: Duration) -> Duration {
    left.min(asked_for)
}

/// A panic came between: of the driver, or of this crate. What it said is not passed on: a driver may have put the
/// server's address there, with a password. The program's panic hook has been told.
fn cut_short() -> Error {
    Error::unavailable(Done::Unknown, "the claim ended in a panic, which is a bug, and is given back")
}

pub(crate) fn lost_because(cause: Cause) -> Error {
    Error::lost(format!("the lock was lost: {cause}"))
}
