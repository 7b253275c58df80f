//! A client's end of the way to one node: what stands in a Redis connection's place.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Done, Error, FencingToken, Instant, Result};
use lock_memory::ServerTime;
use lock_memory::wire::{Reply, Wire};
use lock_redlock::{Ask, Freed, Kept, Node, Tells, Vote};

use super::node::{Answer, Question};
use super::{Majority, Request};

pub(super) struct SimNode {
    wire: Arc<dyn Wire<Majority>>,
    clock: Clock,
    at: usize,
    address: String,
    /// The node's time in its newest answer, and when that was asked for.
    seen: Mutex<Option<(ServerTime, Instant)>>,
}

impl SimNode {
    pub(super) fn new(wire: Arc<dyn Wire<Majority>>, clock: Clock, at: usize) -> SimNode {
        SimNode { wire, clock, at, address: format!("node {at}"), seen: Mutex::new(None) }
    }

    async fn ask(&self, what: Question, patience: Duration) -> Result<Answer> {
        let asked = self.clock.now();
        let request = Request { at: self.at, what };
        match self.clock.timeout(patience, self.wire.ask(request)).await {
            Some(Reply { now, answer }) => {
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, asked));
                Ok(answer)
            }
            None => Err(Error::unavailable(Done::Unknown, "no answer in time")),
        }
    }

    /// The end of patience in the node's time. A connection begins with that question.
    async fn deadline(&self, ends: Instant) -> Result<ServerTime> {
        loop {
            let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((time, asked)) = seen {
                return Ok(time + ends.since(asked));
            }
            self.ask(Question::Time, ends.since(self.clock.now())).await?;
        }
    }
}

impl Node for SimNode {
    fn address(&self) -> &str {
        &self.address
    }

    async fn grant(&self, ask: Ask, patience: Duration) -> Result<Vote> {
        let ends = self.clock.now() + patience;
        // As lock-redlock does with a Redis node: the first refusal for lateness may be the estimate's fault.
        for _ in 0..2 {
            let question = Question::Grant { ask: ask.clone(), deadline: self.deadline(ends).await? };
            match self.ask(question, ends.since(self.clock.now())).await? {
                Answer::Vote(vote) => return Ok(vote),
                Answer::Late => {}
                other => return Err(strange(&other)),
            }
        }
        Err(Error::unavailable(Done::No, "too late"))
    }

    async fn raise(
        &self,
        ask: Ask,
        granted: FencingToken,
        token: FencingToken,
        patience: Duration,
    ) -> Result<bool> {
        match self.ask(Question::Raise { ask, granted, token }, patience).await? {
            Answer::Raised(raised) => Ok(raised),
            other => Err(strange(&other)),
        }
    }

    async fn renew(&self, ask: Ask, patience: Duration) -> Result<Kept> {
        match self.ask(Question::Renew { ask }, patience).await? {
            Answer::Kept(kept) => Ok(kept),
            other => Err(strange(&other)),
        }
    }

    async fn refill(&self, ask: Ask, token: FencingToken, patience: Duration) -> Result<bool> {
        let ends = self.clock.now() + patience;
        let question = Question::Refill { ask, token, deadline: self.deadline(ends).await? };
        match self.ask(question, ends.since(self.clock.now())).await? {
            Answer::Refilled(refilled) => Ok(refilled),
            other => Err(strange(&other)),
        }
    }

    async fn release(&self, ask: Ask, tells: Tells, patience: Duration) -> Result<Freed> {
        match self.ask(Question::Release { ask, tells }, patience).await? {
            Answer::Freed(freed) => Ok(freed),
            other => Err(strange(&other)),
        }
    }
}

fn strange(answer: &Answer) -> Error {
    Error::rejected(format!("an answer to another question: {answer:?}"))
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNode({})", self.at)
    }
}
