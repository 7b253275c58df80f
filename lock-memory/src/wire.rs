//! The seam between a client and its server: where messages travel. In this crate they don't travel at all
//! ([`Memory`](crate::Memory)); a simulation puts a network here that loses, delays, doubles and reorders them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Clock, Done, Error, Instant, Result};

use crate::server::Server;
use crate::time::ServerTime;

/// Carries the messages between one client and its server.
#[async_trait]
pub trait Wire<S: Server>: Debug + Send + Sync + 'static {
    /// Carries a request there and the answer back. Takes as long as it takes, perhaps for ever. Dropped, it has
    /// carried the request or has not, or carries it yet.
    async fn ask(&self, request: S::Request) -> Reply<S::Answer>;

    /// Carries a request there, if it can; nobody waits for the answer.
    fn tell(&self, request: S::Request);

    /// Hands everything that the server pushes to `inbox`, from now on. Called once, before anything is asked.
    fn receive(&self, inbox: Inbox<S::Push>);
}

/// An answer, with the time at which the server gave it.
#[derive(Clone, Debug)]
pub struct Reply<A> {
    /// The server's time.
    pub now: ServerTime,
    /// What it says.
    pub answer: A,
}

/// Where a client takes what is pushed to it. Must not block.
pub type Inbox<P> = Box<dyn Fn(Pushed<P>) + Send + Sync>;

/// What arrives at a client without being asked for.
#[derive(Clone, Debug)]
pub enum Pushed<P> {
    /// What the server pushed.
    Push(P),
    /// Something may have been lost.
    Gap,
}

/// One client's side of a wire: every call has its bound, and every answer says what time it is over there.
#[derive(Debug)]
pub(crate) struct Connection<S: Server> {
    wire: Arc<dyn Wire<S>>,
    clock: Clock,
    seen: Mutex<Option<Seen>>,
}

/// A reading of the server's clock. When it *arrived*, because it was taken earlier than that: what is reckoned from
/// it is never more than the server's clock really says.
#[derive(Clone, Copy, Debug)]
struct Seen {
    time: ServerTime,
    arrived: Instant,
}

/// The moment on the client's clock at which a call has to have been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    ends: Instant,
    whole: Duration,
}

impl<S: Server> Connection<S> {
    pub(crate) fn new(wire: Arc<dyn Wire<S>>, clock: Clock) -> Connection<S> {
        Connection { wire, clock, seen: Mutex::new(None) }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Patience that begins now.
    pub(crate) fn patience(&self, whole: Duration) -> Patience {
        Patience { ends: self.clock.now() + whole, whole }
    }

    /// What `future` answers before patience has ended.
    pub(crate) async fn within<F: Future>(&self, patience: Patience, future: F) -> Option<F::Output> {
        self.clock.timeout(patience.ends.since(self.clock.now()), future).await
    }

    /// The answer, if it comes before patience has ended; else `Unavailable`, outcome unknown.
    pub(crate) async fn ask(&self, patience: Patience, request: S::Request) -> Result<S::Answer> {
        match self.within(patience, self.wire.ask(request)).await {
            Some(Reply { now, answer }) => {
                *self.seen() = Some(Seen { time: now, arrived: self.clock.now() });
                Ok(answer)
            }
            None => Err(no_answer(patience)),
        }
    }

    pub(crate) fn tell(&self, request: S::Request) {
        self.wire.tell(request);
    }

    pub(crate) fn receive(&self, inbox: Inbox<S::Push>) {
        self.wire.receive(inbox);
    }

    /// The end of patience in the server's time, never later than it really is; `None` before the first answer.
    pub(crate) fn deadline(&self, patience: Patience) -> Option<ServerTime> {
        let Seen { time, arrived } = (*self.seen())?;
        Some(time + patience.ends.since(arrived))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody knows what became of it.
pub(crate) fn no_answer(patience: Patience) -> Error {
    Error::unavailable(Done::Unknown, format!("the server did not answer within {:?}", patience.whole))
}

/// The server said what doesn't answer the question. Only a broken wire delivers that.
pub(crate) fn unexpected(answer: &impl Debug) -> Error {
    Error::rejected(format!("the server gave an answer to another question: {answer:?}"))
}
