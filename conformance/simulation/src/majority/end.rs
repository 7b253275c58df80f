//! A client's connection to one simulated node. It stands in the place of a Redis connection.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::toolkit::{Call, ServerClock};
use lock_core::{Clock, Effect, Error, FencingToken, Instant, Result};
use lock_memory::ServerTime;
use lock_memory::wire::{Reply, Wire};
use lock_redlock::{Ask, Freed, Held, Kept, Node, Tells, Vote};

use super::node::{Answer, Question};
use super::{Majority, Request};

pub(super) struct SimNode {
    wire: Arc<dyn Wire<Majority>>,
    clock: Clock,
    at: usize,
    address: String,
    /// The node's clock, estimated from its answers as lock-redis does it; none before the first answer.
    heard: Mutex<Option<ServerClock>>,
}

impl SimNode {
    pub(super) fn new(wire: Arc<dyn Wire<Majority>>, clock: Clock, at: usize) -> SimNode {
        SimNode { wire, clock, at, address: format!("node {at}"), heard: Mutex::new(None) }
    }

    async fn ask(&self, what: Question, patience: Duration) -> Result<Answer> {
        let (request, asked_at) = (Request { at: self.at, what }, self.clock.now());
        match self.clock.timeout(patience, self.wire.ask(request)).await {
            Some(Reply { now, answer }) => {
                self.hear(now, asked_at);
                Ok(answer)
            }
            None => Err(Error::unavailable(Effect::Unknown, "no answer in time")),
        }
    }

    fn hear(&self, now: ServerTime, asked_at: Instant) {
        let (told, heard) = (i64::try_from(now.as_micros()).unwrap_or(i64::MAX), self.clock.now());
        self.heard().get_or_insert_with(|| ServerClock::new(told, heard)).hear_answer(told, asked_at, heard);
    }

    fn heard(&self) -> MutexGuard<'_, Option<ServerClock>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the call in the node's time, or slightly before it. The first request on a connection asks
    /// for that time.
    async fn deadline(&self, call: &Call) -> Result<ServerTime> {
        loop {
            let deadline = self.heard().map(|clock| clock.deadline(call));
            if let Some(micros) = deadline {
                return Ok(ServerTime::from_micros(u64::try_from(micros).unwrap_or(0)));
            }
            self.ask(Question::Time, call.left()).await?;
        }
    }
}

impl Node for SimNode {
    fn address(&self) -> &str {
        &self.address
    }

    fn on_arrival(&self, sent: Instant) -> Option<i64> {
        self.heard().map(|clock| clock.on_arrival(sent))
    }

    async fn grant(&self, ask: Ask, proposed: Option<FencingToken>, patience: Duration) -> Result<Vote> {
        let call = &Call::begin(&self.clock, patience);
        // As lock-redlock does with a Redis node: if an attempt is refused as late for the first time, the estimate of
        // the node's clock may be wrong.
        for _ in 0..2 {
            let deadline = self.deadline(call).await?;
            let question = Question::Grant { ask: ask.clone(), proposed, deadline };
            match self.ask(question, call.left()).await? {
                Answer::Vote(vote) => return Ok(vote),
                Answer::Late => {}
                other => return Err(strange(&other)),
            }
        }
        Err(Error::unavailable(Effect::NotApplied, "too late"))
    }

    async fn look(&self, ask: Ask, patience: Duration) -> Result<Option<Held>> {
        let answer = self.ask(Question::Look { ask }, patience).await?;
        let Answer::Shown(shown) = answer else { return Err(strange(&answer)) };
        Ok(shown)
    }

    async fn raise(
        &self,
        ask: Ask,
        granted: FencingToken,
        token: FencingToken,
        patience: Duration,
    ) -> Result<bool> {
        let answer = self.ask(Question::Raise { ask, granted, token }, patience).await?;
        let Answer::Raised(raised) = answer else { return Err(strange(&answer)) };
        Ok(raised)
    }

    async fn renew(&self, ask: Ask, patience: Duration) -> Result<Kept> {
        let answer = self.ask(Question::Renew { ask }, patience).await?;
        let Answer::Kept(kept) = answer else { return Err(strange(&answer)) };
        Ok(kept)
    }

    async fn refill(&self, ask: Ask, token: FencingToken, patience: Duration) -> Result<bool> {
        let call = &Call::begin(&self.clock, patience);
        let question = Question::Refill { ask, token, deadline: self.deadline(call).await? };
        let answer = self.ask(question, call.left()).await?;
        let Answer::Refilled(refilled) = answer else { return Err(strange(&answer)) };
        Ok(refilled)
    }

    async fn release(&self, ask: Ask, tells: Tells, patience: Duration) -> Result<Freed> {
        let answer = self.ask(Question::Release { ask, tells }, patience).await?;
        let Answer::Freed(freed) = answer else { return Err(strange(&answer)) };
        Ok(freed)
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
