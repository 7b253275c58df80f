//! The interface between a client and its server, where messages travel. In this crate a message is a function call
//! ([`Memory`](crate::Memory)); a simulation puts a network here that loses, delays, doubles and reorders messages.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::UnixTime;
use lock_core::toolkit::{self, Call};
use lock_core::{Clock, Effect, Error, Result};

use crate::server::Server;
use crate::time::ServerTime;

/// Carries the messages between one client and its server.
#[async_trait]
pub trait Wire<S: Server>: Debug + Send + Sync + 'static {
    /// Carries a request to the server and the answer back. There is no time limit: it may never resolve.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request may have been delivered, may never be, or may still be on its way.
    async fn ask(&self, request: S::Request) -> Reply<S::Answer>;

    /// Carries a request to the server, if it can. The answer is not waited for.
    fn tell(&self, request: S::Request);

    /// Hands everything that the server pushes to `inbox`, from now on. Called once, before anything is asked.
    fn receive(&self, inbox: Inbox<S::Push>);
}

/// An answer, with the server's time at which it was given.
#[derive(Clone, Debug)]
pub struct Reply<A> {
    /// The server's time.
    pub now: ServerTime,
    /// The answer itself.
    pub answer: A,
}

/// Receives what is pushed to a client. Must not block.
pub type Inbox<P> = Box<dyn Fn(Pushed<P>) + Send + Sync>;

/// A message that arrives at a client without being asked for.
#[derive(Clone, Debug)]
pub enum Pushed<P> {
    /// A message that the server pushed.
    Push(P),
    /// Messages may have been lost.
    Gap,
}

/// One client's side of a wire: every call has a time limit, and every answer tells the server's time.
#[derive(Debug)]
pub(crate) struct Connection<S: Server> {
    wire: Arc<dyn Wire<S>>,
    clock: Clock,
    /// The estimate of the server's clock by its answers; `None` before the first one.
    heard: Mutex<Option<toolkit::ServerClock>>,
}

impl<S: Server> Connection<S> {
    pub(crate) fn new(wire: Arc<dyn Wire<S>>, clock: Clock) -> Connection<S> {
        Connection { wire, clock, heard: Mutex::new(None) }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Begins a call.
    pub(crate) fn call(&self, patience: Duration) -> Call {
        Call::begin(&self.clock, patience)
    }

    /// Returns the answer if it comes before the call is over. Otherwise `Unavailable`, and it is unknown whether the
    /// request was done.
    pub(crate) async fn ask(&self, call: &Call, request: S::Request) -> Result<S::Answer> {
        match call.within(self.wire.ask(request)).await {
            Some(Reply { now, answer }) => {
                self.hear(now);
                Ok(answer)
            }
            None => Err(call.out_of_time(Effect::Unknown)),
        }
    }

    /// Returns the time at which the server answers this request, which changes nothing.
    pub(crate) async fn server_time(&self, call: &Call, request: S::Request) -> Result<UnixTime> {
        match call.within(self.wire.ask(request)).await {
            Some(Reply { now, .. }) => {
                self.hear(now);
                Ok(UnixTime::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX)))
            }
            None => Err(call.out_of_time(Effect::NotApplied)),
        }
    }

    pub(crate) fn tell(&self, request: S::Request) {
        self.wire.tell(request);
    }

    pub(crate) fn receive(&self, inbox: Inbox<S::Push>) {
        self.wire.receive(inbox);
    }

    /// Returns the end of the call in the server's time, or a moment before it; `None` before the first answer.
    pub(crate) fn deadline(&self, call: &Call) -> Option<ServerTime> {
        let micros = (*self.heard())?.deadline(call);
        Some(ServerTime::from_micros(u64::try_from(micros).unwrap_or(0)))
    }

    /// Takes note of the server's time from an answer that has arrived this moment.
    fn hear(&self, now: ServerTime) {
        let (told, heard) = (i64::try_from(now.as_micros()).unwrap_or(i64::MAX), self.clock.now());
        self.heard().get_or_insert_with(|| toolkit::ServerClock::new(told, heard)).hear(told, heard);
    }

    fn heard(&self) -> MutexGuard<'_, Option<toolkit::ServerClock>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for an answer that does not fit the question. Only a broken wire delivers one.
pub(crate) fn unexpected(answer: &impl Debug) -> Error {
    Error::rejected(format!("the server gave an answer to another question: {answer:?}"))
}
