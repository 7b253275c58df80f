//! The servers: pure functions of their state, the time and a request. No clock, no randomness, no I/O in here, so
//! that a simulation can delay, lose and double the messages around them, and set their clocks.

use std::fmt::Debug;
use std::sync::Arc;

use lock_core::{FencingToken, Owner, OwnerBytes};

use crate::time::ServerTime;

pub mod lease;
pub mod queue;

/// A lock's key: the client's prefix and the lock's name.
pub type Key = Arc<str>;

/// Which client sent a message: what a connection is to a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// What a server does, and nothing else.
pub trait Server: Debug + Send + 'static {
    /// What it can be asked. A request may arrive late, twice, or never.
    type Request: Clone + Debug + Send + 'static;
    /// What it answers.
    type Answer: Clone + Debug + Send + 'static;
    /// What it tells a client without being asked.
    type Push: Clone + Debug + Send + 'static;

    /// Handles one request of `from` at the time `now`.
    fn handle(&mut self, now: ServerTime, from: ClientId, request: Self::Request) -> Handled<Self>;

    /// Ends what has run out by `now`. Every request does this first, for what it concerns; only who is to be *told*
    /// of an end needs somebody to call this.
    fn expire(&mut self, now: ServerTime) -> Vec<(ClientId, Self::Push)>;

    /// When to call [`expire`](Self::expire) next. May be early.
    fn next_expiry(&self) -> Option<ServerTime>;

    /// The connection of `client` is gone, and with it what belonged to the connection.
    fn hang_up(&mut self, client: ClientId);

    /// How often requests have changed who holds, waits, or is refused, since the server began.
    fn writes(&self) -> u64;

    /// How many things locks have left here at the time `now`, but for tokens.
    fn kept(&self, now: ServerTime) -> u64;

    /// How many names it remembers for their tokens.
    fn tokens(&self) -> u64;
}

/// What came of a request.
#[derive(Debug)]
pub struct Handled<S: Server + ?Sized> {
    /// For the client that asked.
    pub answer: S::Answer,
    /// For whom it concerns.
    pub pushes: Vec<(ClientId, S::Push)>,
}

impl<S: Server + ?Sized> Handled<S> {
    fn quietly(answer: S::Answer) -> Handled<S> {
        Handled { answer, pushes: Vec::new() }
    }
}

/// An owner as `inspect` shows it and `revoke` takes it: 32 hex digits.
pub(crate) fn shown(owner: Owner) -> OwnerBytes {
    OwnerBytes::new(owner.to_string().into_bytes())
}

/// A token, of which no server here makes a zero.
pub(crate) fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("tokens begin at one")
}
