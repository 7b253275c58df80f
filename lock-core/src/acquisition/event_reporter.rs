//! Reports the events of a claim's life so that they add up: each request is answered once, each grant ends once, and a
//! loss is reported before that end, once. This also holds if the life is cut short by the end of its runtime or by a
//! panic.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use super::terms::Terms;
use crate::clock::Instant;
use crate::ending::{Ending, LossReason};
use crate::events::{Event, Refusal};
use crate::owner::Owner;
use crate::token::FencingToken;

/// The record of what was reported of one claim. When dropped, it reports what is missing.
pub(super) struct EventReporter {
    shared: Arc<Shared>,
    terms: Arc<Terms>,
    owner: Owner,
    /// When the lock was asked for.
    pub(super) began: Instant,
    stage: Stage,
}

/// The last event that was reported, except those that may be reported any number of times.
#[derive(Clone, Copy)]
enum Stage {
    NotAsked,
    Asked,
    Granted {
        /// When the attempt that was granted was sent.
        since: Instant,
    },
    Lost {
        since: Instant,
    },
    Closed,
}

impl EventReporter {
    pub(super) fn new(shared: Arc<Shared>, terms: Arc<Terms>, owner: Owner, began: Instant) -> EventReporter {
        EventReporter { shared, terms, owner, began, stage: Stage::NotAsked }
    }

    pub(super) fn asked(&mut self) {
        self.stage = Stage::Asked;
        self.report(&Event::Asked { name: &self.terms.name });
    }

    pub(super) fn not_granted(&mut self, why: Refusal) {
        self.stage = Stage::Closed;
        self.report(&Event::NotGranted { name: &self.terms.name, why, waited: self.since(self.began) });
    }

    /// Reports the grant of the attempt that was sent at `since`.
    pub(super) fn granted(&mut self, token: FencingToken, since: Instant) {
        self.stage = Stage::Granted { since };
        let waited = self.since(self.began);
        self.report(&Event::Granted { name: &self.terms.name, owner: self.owner, token, waited });
    }

    /// Reports a loss. What is lost stays lost: a second cause is not reported.
    pub(super) fn lost(&mut self, cause: LossReason) {
        if let Stage::Granted { since } = self.stage {
            self.stage = Stage::Lost { since };
            let held = self.since(since);
            self.report(&Event::Lost { name: &self.terms.name, owner: self.owner, cause, held });
        }
    }

    pub(super) fn ended(&mut self, ending: Ending) {
        if let Stage::Granted { since } | Stage::Lost { since } = self.stage {
            self.stage = Stage::Closed;
            let held = self.since(since);
            self.report(&Event::Ended { name: &self.terms.name, owner: self.owner, ending, held });
        }
    }

    fn since(&self, earlier: Instant) -> Duration {
        self.shared.clock.now().since(earlier)
    }

    fn report(&self, event: &Event<'_>) {
        self.shared.events.report(event);
    }
}

impl Drop for EventReporter {
    fn drop(&mut self) {
        match self.stage {
            Stage::NotAsked | Stage::Closed => {}
            _ if self.shared.process.is_another() => {} // in a fork: the claim lives on in the parent process
            Stage::Asked => self.not_granted(Refusal::Error),
            Stage::Granted { .. } | Stage::Lost { .. } => {
                self.lost(LossReason::RuntimeEnded);
                self.ended(Ending::Expired);
            }
        }
    }
}
