//! The families of servers, as far as the simulation needs to know them.

mod lease;
mod queue;
mod register;

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Busy, Context, Driver, Entry, When};
use lock_core::{Owner, OwnerBytes, Result};
use lock_memory::ServerTime;
use lock_memory::server::queue::SessionId;
use lock_memory::server::{ClientId, Key, Server};
use lock_memory::wire::Wire;

use super::dice::Dice;
use super::faults::{Guard, Loss};
use super::ids::{CallId, LockId};
use super::setting::NAMES;
use super::tally::Occurrence;

/// The holder of a lock, as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) call: CallId,
    pub(super) token: u64,
}

/// The part that one server has granted to a call that holds a lock, or may be about to hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The server.
    pub(super) place: usize,
    pub(super) call: CallId,
    /// The call's grant that it belongs to, as far as servers tell grants apart.
    pub(super) grant: u64,
    /// The highest token that the call may have been granted with it.
    pub(super) token: u64,
    /// The rest of its lease, by that server's clock.
    pub(super) left: Duration,
}

impl Part {
    /// Returns what tells it from other parts of the same lock, however much of its lease is left.
    pub(super) fn id(&self) -> (usize, CallId, u64) {
        (self.place, self.call, self.grant)
    }
}

/// The action of a request, as far as the checker needs to know it.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// An attempt by this owner, which belongs to this call, in this session.
    Attempt { lock: LockId, owner: OwnerBytes, call: CallId, session: Option<SessionId> },
    /// A takeover of this owner, which belongs to this call, to its predecessor.
    Takeover { lock: LockId, owner: OwnerBytes, call: CallId, predecessor: OwnerBytes },
    /// A release by this owner.
    Release { lock: LockId, owner: OwnerBytes },
    /// A revoke of the lock from its holder.
    Revoke { lock: LockId, when: When },
    /// A renewal or a heartbeat: it keeps what there is, and its answer says so.
    Proof,
    /// A look at who holds the lock.
    Look { lock: LockId },
    /// The end of a session.
    Close,
    /// A request that can't change a holder.
    Nothing,
}

/// A server that can be simulated.
pub(super) trait Family: Server + Sized {
    /// True if it promises anything when its clock is set.
    const STEPS: bool;

    /// True if waiters have places at the server.
    const KEEPS_PLACES: bool = false;

    /// Returns how many servers a history has. Each has its own clock.
    fn servers(_dice: &mut Dice) -> usize {
        1
    }

    /// True if a server that has lost its data may grant locks that others hold.
    const FORGETTING_ENDS_LEASES: bool = true;

    /// Creates the servers, which begin now, each by its own clock.
    fn begin(now: &[ServerTime]) -> Self;

    /// Creates a driver at this end of a wire to `servers` servers, on the current runtime.
    fn driver(wire: Arc<dyn Wire<Self>>, servers: usize, context: Context) -> Result<impl Driver>;

    /// Returns which server a request is for.
    fn place(_request: &Self::Request) -> usize {
        0
    }

    /// Returns what a request does.
    fn request_kind(request: &Self::Request) -> RequestKind;

    /// Sets whether servers guard against what they may have forgotten, in a family where they can.
    fn forgets_by(&mut self, _guard: Guard) {}

    /// Returns the request that ends the lease of a lock, in a family of one server.
    fn expiry(_key: Key) -> Option<Self::Request> {
        None
    }

    /// Ends the lease of a lock, on whichever servers keep it.
    fn end_lease(&mut self, now: ServerTime, key: Key) -> Vec<(ClientId, Self::Push)> {
        let request = Self::expiry(key).into_iter();
        request.flat_map(|request| self.handle(now, SIMULATION, request).pushes).collect()
    }

    /// Makes one of the servers lose its data.
    fn forget(&mut self, _place: usize, _loss: Loss, now: &[ServerTime]) {
        *self = Self::begin(now);
    }

    /// Returns what has happened among several servers by the last request, if it is an occurrence.
    fn occurred(&mut self) -> Option<Occurrence> {
        None
    }

    /// Returns the request that ends a session, in a family that has sessions.
    fn end_session(_session: SessionId) -> Option<Self::Request> {
        None
    }

    /// Returns the current holder of the lock as its server has it, in a family of one server.
    fn entry(&mut self, _now: ServerTime, _key: Key) -> Option<Entry> {
        None
    }

    /// Returns the current holder of the lock.
    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder> {
        self.entry(now[0], key).as_ref().and_then(holder)
    }

    /// Returns what each server has granted of the lock: to its holder, or to a call that may be about to hold it.
    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        self.entry(now[0], key).as_ref().and_then(part).into_iter().collect()
    }

    /// Returns the calls that have a place behind the holder.
    fn waiting(&mut self, _now: &[ServerTime], _key: Key) -> Vec<CallId> {
        Vec::new()
    }

    /// Returns whether a client that gets this answer may conclude that it has a lock.
    fn is_grant(answer: &Self::Answer) -> bool;

    /// Returns how long a server that answers this has no vote.
    fn sits_out(_answer: &Self::Answer) -> Option<Duration> {
        None
    }

    /// Returns whether `busy` says when the holder's lease ends, and not when to try again.
    fn shows_a_lease(busy: &Busy) -> bool {
        busy.free_in.is_some()
    }

    /// Returns whether a revoke was done.
    fn has_revoked(_answer: &Self::Answer) -> bool {
        false
    }

    /// Returns which grant a release is of, if there are several servers, each of which grants for itself.
    fn released_grant(_request: &Self::Request) -> Option<u64> {
        None
    }

    /// Returns whether one server of several has released what it had.
    fn has_released(_answer: &Self::Answer) -> bool {
        false
    }

    /// Returns whether a release is of what a majority of several servers has, and not of an earlier try, of which one
    /// of them has come by late.
    fn is_of_the_hold(&self, _now: &[ServerTime], _request: &Self::Request) -> bool {
        true
    }
}

/// The simulation itself, when it asks a server directly: real clients are counted from one.
pub(super) const SIMULATION: ClientId = ClientId(0);

/// Returns the lock of this name. There are no other names.
pub(super) fn lock(name: &str) -> Option<LockId> {
    NAMES.iter().position(|known| *known == name)
}

pub(super) fn attempt(name: &str, owner: OwnerBytes, label: &str, session: Option<SessionId>) -> RequestKind {
    // The label of a call is its number.
    match (lock(name), label.parse()) {
        (Some(lock), Ok(call)) => RequestKind::Attempt { lock, owner, call, session },
        _ => RequestKind::Nothing,
    }
}

pub(super) fn release(name: &str, owner: OwnerBytes) -> RequestKind {
    lock(name).map_or(RequestKind::Nothing, |lock| RequestKind::Release { lock, owner })
}

pub(super) fn look(name: &str) -> RequestKind {
    lock(name).map_or(RequestKind::Nothing, |lock| RequestKind::Look { lock })
}

fn revoke(name: &str, when: When) -> RequestKind {
    lock(name).map_or(RequestKind::Nothing, |lock| RequestKind::Revoke { lock, when })
}

fn shown(owner: &Owner) -> OwnerBytes {
    OwnerBytes::new(*owner.as_bytes())
}

fn call(entry: &Entry) -> Option<CallId> {
    entry.label.as_deref()?.parse().ok()
}

fn holder(entry: &Entry) -> Option<Holder> {
    Some(Holder { call: call(entry)?, token: entry.token?.get() })
}

fn part(entry: &Entry) -> Option<Part> {
    let Holder { call, token } = holder(entry)?;
    Some(Part { place: 0, call, grant: token, token, left: entry.expires_in.unwrap_or_default() })
}
