//! The life of a claim, from top to bottom: enter, hold, leave. One future owns the claim throughout, so that a caller
//! who goes away, at any moment, leaves nothing behind on the server.

mod enter;
mod hold;
mod leave;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::client::Shared;
use crate::clock::Instant;
use crate::driver::{Cause, Claim, Entry, Request, Waits};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::gate::Turn;
use crate::guard::{Command, State};
use crate::keeper::Resident;
use crate::lock::Terms;
use crate::owner::Owner;
use crate::token::FencingToken;

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
    claim: Box<dyn Claim>,
    began: Instant,
    listening: Listening,
    residue: Residue,
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
        let began = shared.clock.now();
        let (listening, residue) = (Listening::NotYet, Residue::Nothing);
        Life {
            shared,
            terms,
            owner,
            patience,
            waits,
            wait_ends,
            claim,
            began,
            listening,
            residue,
            _resident: resident,
        }
    }

    /// Enters, holds, leaves.
    pub(crate) async fn live(mut self, mut caller: oneshot::Sender<Answer>) {
        self.tell(&Event::Asked { name: &self.terms.name });
        let turn = match self.take_turn(&mut caller).await {
            Ok(turn) => turn,
            Err(e) => return self.answer_no(caller, Err(e)),
        };
        match self.enter(&mut caller, turn.as_ref()).await {
            Ok(Ok(mut held)) => {
                let ended = self.hold(&mut held, caller).await;
                self.leave(held, ended, turn).await;
            }
            Ok(Err(refused)) => self.leave_without(caller, Ok(Err(refused)), turn).await,
            Err(e) => self.leave_without(caller, Err(e), turn).await,
        }
    }

    async fn leave_without(self, caller: oneshot::Sender<Answer>, answer: Answer, turn: Option<Turn>) {
        self.answer_no(caller, answer);
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

/// The part of a lease to count on: clocks' rates differ by up to 1 %, and servers round to the millisecond.
fn certain(lease: Duration) -> Duration {
    lease.saturating_sub(lease / 100).saturating_sub(Duration::from_millis(2))
}

/// What to believe of what the server says is left: no more than was asked for. A server whose clock was set back says
/// more, and takes it back when its clock is set right.
fn believed(left: Duration, asked_for: Duration) -> Duration {
    left.min(asked_for)
}

pub(crate) fn lost_because(cause: Cause) -> Error {
    Error::lost(format!("the lock was lost: {cause}"))
}
