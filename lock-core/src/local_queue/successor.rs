//! A successor: the waiter to which a task of the same client hands the lock over, in one request.

use tokio::sync::oneshot;

use super::{Arrival, Turn};
use crate::clock::Instant;
use crate::driver::{Attempt, Claim, Grant, Request};
use crate::error::{Effect, Error, Result};

/// A request for a waiter, sent by the claim before it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The waiter's claim, which has asked; `None` if it was lost.
    pub(crate) claim: Option<Box<dyn Claim>>,
    /// When the request was sent.
    pub(crate) at: Instant,
    /// The outcome, as of an attempt.
    pub(crate) outcome: Result<Attempt>,
}

/// A waiter that was taken out of the queue. It waits until it is told what the server has answered.
#[derive(Debug)]
pub(crate) struct Successor {
    request: Request,
    at: Instant,
    /// `None` once the waiter was told.
    waiter: Option<(Turn, oneshot::Sender<Arrival>)>,
}

impl Successor {
    pub(super) fn new(
        turn: Turn,
        arrival: oneshot::Sender<Arrival>,
        request: Request,
        at: Instant,
    ) -> Successor {
        Successor { request, at, waiter: Some((turn, arrival)) }
    }

    /// Returns what its owner asks for.
    pub(crate) fn request(&self) -> Request {
        self.request.clone()
    }

    /// Tells it that its owner has the lock. `others` says whether other clients wait, if the server knows.
    pub(crate) fn granted(mut self, claim: Box<dyn Claim>, grant: Grant, others: Option<bool>) {
        if let Some((turn, _)) = &self.waiter {
            turn.handed_over(others);
        }
        self.arrives(Some(Asked { claim: Some(claim), at: self.at, outcome: Ok(Attempt::Granted(grant)) }));
    }

    /// Tells it that the request has failed. It may have taken effect.
    pub(crate) fn failed(mut self, claim: Box<dyn Claim>, error: Error) {
        self.arrives(Some(Asked { claim: Some(claim), at: self.at, outcome: Err(error) }));
    }

    /// Gives it the turn alone: nothing was done for its owner.
    pub(crate) fn attempts_itself(mut self) {
        self.arrives(None);
    }

    fn arrives(&mut self, asked: Option<Asked>) {
        if let Some((turn, arrival)) = self.waiter.take() {
            turn.changes_hands();
            // A waiter whose runtime has ended drops the turn, and the next one gets it.
            drop(arrival.send(Arrival { turn, asked }));
        }
    }
}

impl Drop for Successor {
    /// The claim before it ended in the middle of the request, with a panic or with its runtime.
    fn drop(&mut self) {
        let cut_short = Error::unavailable(Effect::Unknown, "the hand-over of the lock was cut short");
        self.arrives(Some(Asked { claim: None, at: self.at, outcome: Err(cut_short) }));
    }
}
