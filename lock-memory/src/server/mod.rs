//! The servers: pure functions of their state, the time and a request. There is no clock, no randomness and no I/O in
//! here, so that a simulation can delay, lose and double the messages and set the servers' clocks.

use std::fmt::Debug;
use std::sync::Arc;

use lock_core::{FencingToken, Owner, OwnerBytes};

use crate::time::ServerTime;

pub mod lease;
pub mod queue;
pub mod register;

/// A lock's key: the client's prefix and the lock's name.
pub type Key = Arc<str>;

/// The client that sent a message. It stands for what is a connection on a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The interface that all servers share.
pub trait Server: Debug + Send + 'static {
    /// A request to the server. It may arrive late, twice, or never.
    type Request: Clone + Debug + Send + 'static;
    /// An answer of the server.
    type Answer: Clone + Debug + Send + 'static;
    /// A notification that the server sends to a client without being asked.
    type Push: Clone + Debug + Send + 'static;

    /// Handles one request of `from` at the time `now`.
    fn handle(&mut self, now: ServerTime, from: ClientId, request: Self::Request) -> Handled<Self>;

    /// Ends what has run out by `now`, and returns what clients are to be told. Every request does this first, for what
    /// it concerns: the call is only needed to *tell* clients of an end.
    fn expire(&mut self, now: ServerTime) -> Vec<(ClientId, Self::Push)>;

    /// Returns when to call [`expire`](Self::expire) next. May be too early.
    fn next_expiry(&self) -> Option<ServerTime>;

    /// Removes the connection of `client`, and what belonged to that connection.
    fn hang_up(&mut self, client: ClientId);

    /// Returns how often requests have changed who holds, waits, or is refused, since the server began.
    fn writes(&self) -> u64;

    /// Returns how many things locks have left on the server at the time `now`, without tokens.
    fn kept(&self, now: ServerTime) -> u64;

    /// Returns how many names the server remembers for their tokens.
    fn tokens(&self) -> u64;
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Handled<S: Server + ?Sized> {
    /// The answer, for the client that asked.
    pub answer: S::Answer,
    /// Messages, each for a client that it concerns.
    pub pushes: Vec<(ClientId, S::Push)>,
}

impl<S: Server + ?Sized> Handled<S> {
    fn quietly(answer: S::Answer) -> Handled<S> {
        Handled { answer, pushes: Vec::new() }
    }
}

/// Returns an owner as `inspect` shows it and `revoke` takes it: 32 hex digits.
pub(crate) fn shown(owner: Owner) -> OwnerBytes {
    OwnerBytes::new(owner.to_string().into_bytes())
}

/// Returns a token. No server here makes a zero.
pub(crate) fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("tokens begin at one")
}
