//! What the simulation needs to know of each family of servers.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Busy, Change, Context, Driver, Entry, Inspection, Prefix, Revoked, Row, When};
use lock_core::{OwnerBytes, Result};
use lock_memory::ServerTime;
use lock_memory::lease::LeaseDriver;
use lock_memory::queue::QueueDriver;
use lock_memory::register::Tells;
use lock_memory::server::lease::{self, LeaseServer};
use lock_memory::server::queue::{self, QueueServer, SessionId};
use lock_memory::server::register::{self, RegisterServer};
use lock_memory::server::{ClientId, Key, Server};
use lock_memory::wire::Wire;

use super::dice::Dice;
use super::faults::{Guard, Loss};
use super::ids::{CallId, LockId};
use super::setting::{NAMES, TTL};

/// The holder of a lock, as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) call: CallId,
    pub(super) token: u64,
}

/// What one server has granted to a call that holds a lock, or may be about to hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Which server.
    pub(super) place: usize,
    pub(super) call: CallId,
    /// The call's grant that it belongs to, as far as servers tell grants apart.
    pub(super) grant: u64,
    /// The highest token that the call may have been granted with it.
    pub(super) token: u64,
    /// How much of its lease is left, by that server's clock.
    pub(super) left: Duration,
}

/// What a request does, as far as the checker needs to know.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// An attempt by this owner, which belongs to this call, in this session.
    Attempt { lock: LockId, owner: OwnerBytes, call: CallId, session: Option<SessionId> },
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
    /// Whether it promises anything if its clock is set.
    const STEPS: bool;

    /// Whether waiters have places at the server.
    const KEEPS_PLACES: bool = false;

    /// Returns how many servers a history has. Each has its own clock.
    fn servers(_dice: &mut Dice) -> usize {
        1
    }

    /// Whether a server that has lost its data may grant locks that others hold.
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

    /// Ends the lease of a lock, on whichever servers keep it.
    fn end_lease(&mut self, now: ServerTime, key: Key) -> Vec<(ClientId, Self::Push)>;

    /// Makes one of the servers lose its data.
    fn forget(&mut self, _place: usize, _loss: Loss, now: &[ServerTime]) {
        *self = Self::begin(now);
    }

    /// Returns the request that ends a session, in a family that has sessions.
    fn end_session(session: SessionId) -> Option<Self::Request>;

    /// Returns the current holder of the lock.
    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder>;

    /// Returns what each server has granted of the lock: to its holder, or to a call that may be about to hold it.
    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part>;

    /// Returns the calls that have a place behind the holder.
    fn waiting(&mut self, now: &[ServerTime], key: Key) -> Vec<CallId>;

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
    fn has_revoked(answer: &Self::Answer) -> bool;

    /// Returns which grant a release is of, if there are several servers, each of which grants for itself.
    fn released_grant(_request: &Self::Request) -> Option<u64> {
        None
    }

    /// Returns whether one server of several has released what it had.
    fn has_released(_answer: &Self::Answer) -> bool {
        false
    }

    /// Whether a release is of what a majority of several servers has, and not of an earlier try, of which one of them
    /// has come by late.
    fn is_of_the_hold(&self, _now: &[ServerTime], _request: &Self::Request) -> bool {
        true
    }
}

impl Family for LeaseServer {
    const STEPS: bool = true;

    fn begin(_now: &[ServerTime]) -> LeaseServer {
        LeaseServer::default()
    }

    fn driver(wire: Arc<dyn Wire<LeaseServer>>, _servers: usize, context: Context) -> Result<impl Driver> {
        Ok(LeaseDriver::new(wire, "simulated", Prefix::default(), context.clock))
    }

    fn request_kind(request: &lease::Request) -> RequestKind {
        match request {
            lease::Request::Attempt { key, owner, label, .. } => attempt(key, *owner, label.as_str(), None),
            lease::Request::Release { key, owner } => release(key, *owner),
            lease::Request::Revoke { key, when, .. } => revoke(key, *when),
            lease::Request::Inspect { key } => look(key),
            lease::Request::Renew { .. } => RequestKind::Proof,
            _ => RequestKind::Nothing,
        }
    }

    fn end_lease(&mut self, now: ServerTime, key: Key) -> Vec<(ClientId, <LeaseServer as Server>::Push)> {
        self.handle(now, SIMULATION, lease::Request::Expire { key }).pushes
    }

    fn end_session(_session: SessionId) -> Option<lease::Request> {
        None
    }

    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder> {
        self.inspected(now, key).as_ref().and_then(holder)
    }

    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        self.inspected(now, key).as_ref().and_then(part).into_iter().collect()
    }

    fn waiting(&mut self, _now: &[ServerTime], _key: Key) -> Vec<CallId> {
        Vec::new()
    }

    fn is_grant(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Granted { .. })
    }

    fn has_revoked(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}

impl Family for QueueServer {
    /// A session server measures time by itself: no fault sets that clock.
    const STEPS: bool = false;
    const KEEPS_PLACES: bool = true;

    fn begin(now: &[ServerTime]) -> QueueServer {
        QueueServer::new(now[0])
    }

    fn driver(wire: Arc<dyn Wire<QueueServer>>, _servers: usize, context: Context) -> Result<impl Driver> {
        let (clock, runtime) = (context.clock, tokio::runtime::Handle::current());
        Ok(QueueDriver::new(wire, "simulated", Prefix::default(), clock, runtime))
    }

    fn request_kind(request: &queue::Request) -> RequestKind {
        match request {
            queue::Request::Attempt { key, owner, label, session, .. } => {
                attempt(key, *owner, label.as_str(), Some(*session))
            }
            queue::Request::Release { key, owner, .. } => release(key, *owner),
            queue::Request::Revoke { key, when, .. } => revoke(key, *when),
            queue::Request::Inspect { key } => look(key),
            queue::Request::Heartbeat { .. } => RequestKind::Proof,
            queue::Request::CloseSession { .. } => RequestKind::Close,
            _ => RequestKind::Nothing,
        }
    }

    fn end_lease(&mut self, now: ServerTime, key: Key) -> Vec<(ClientId, <QueueServer as Server>::Push)> {
        self.handle(now, SIMULATION, queue::Request::Expire { key }).pushes
    }

    fn end_session(session: SessionId) -> Option<queue::Request> {
        Some(queue::Request::CloseSession { session })
    }

    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder> {
        self.inspected(now, key).holder.as_ref().and_then(holder)
    }

    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        self.inspected(now, key).holder.as_ref().and_then(part).into_iter().collect()
    }

    fn waiting(&mut self, now: &[ServerTime], key: Key) -> Vec<CallId> {
        self.inspected(now, key).waiters.iter().flatten().filter_map(call).collect()
    }

    fn is_grant(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Granted(_))
    }

    fn has_revoked(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}

impl Family for RegisterServer {
    const STEPS: bool = true;

    fn begin(now: &[ServerTime]) -> RegisterServer {
        RegisterServer::new(now[0])
    }

    fn driver(wire: Arc<dyn Wire<RegisterServer>>, _servers: usize, context: Context) -> Result<impl Driver> {
        // As patient as claims are: a lost message of the feed would otherwise cost its waiters seconds.
        let context = Context::new(context.clock, context.random, TTL / 3);
        // On half of the machines answers tell the time, on the others it is estimated.
        let mut coin = [0];
        context.random.fill(&mut coin);
        let tells = if coin[0] % 2 == 0 { Tells::Time } else { Tells::Nothing };
        Ok(lock_memory::register::driver(wire, "simulated", Prefix::default(), None, tells, context))
    }

    /// A write does what its row says.
    fn request_kind(request: &register::Request) -> RequestKind {
        match request {
            register::Request::Put { key, value, .. } => {
                let row = Row::parse(value).ok().zip(lock(key));
                row.map_or(RequestKind::Nothing, |(row, lock)| of_row(lock, &row))
            }
            register::Request::Get { key } => look(key),
            _ => RequestKind::Nothing,
        }
    }

    fn end_lease(&mut self, now: ServerTime, key: Key) -> Vec<(ClientId, <RegisterServer as Server>::Push)> {
        self.handle(now, SIMULATION, register::Request::Expire { key }).pushes
    }

    fn end_session(_session: SessionId) -> Option<register::Request> {
        None
    }

    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder> {
        RegisterServer::holder(self, now[0], &key).as_ref().and_then(holder)
    }

    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        RegisterServer::holder(self, now[0], &key).as_ref().and_then(part).into_iter().collect()
    }

    fn waiting(&mut self, _now: &[ServerTime], _key: Key) -> Vec<CallId> {
        Vec::new()
    }

    /// A client concludes what it has from any write of its own.
    fn is_grant(answer: &register::Answer) -> bool {
        matches!(answer, register::Answer::Applied { .. })
    }

    fn has_revoked(answer: &register::Answer) -> bool {
        matches!(answer, register::Answer::Applied { .. })
    }
}

/// Returns what the write of this row does.
fn of_row(lock: LockId, row: &Row) -> RequestKind {
    let owner = row.owner();
    match row.change() {
        Change::Granted => match row.label().parse() {
            // The label of a call is its number.
            Ok(call) => RequestKind::Attempt { lock, owner, call, session: None },
            Err(_) => RequestKind::Nothing,
        },
        Change::Renewed => RequestKind::Proof,
        Change::Released => RequestKind::Release { lock, owner },
        Change::Revoked(when) => RequestKind::Revoke { lock, when },
    }
}

/// A single server that can be asked directly, without the network.
trait Inspected: Server {
    type Shown;

    fn inspected(&mut self, now: &[ServerTime], key: Key) -> Self::Shown;
}

impl Inspected for LeaseServer {
    type Shown = Option<Entry>;

    fn inspected(&mut self, now: &[ServerTime], key: Key) -> Option<Entry> {
        match self.handle(now[0], SIMULATION, lease::Request::Inspect { key }).answer {
            lease::Answer::Holder(entry) => entry,
            _ => None,
        }
    }
}

impl Inspected for QueueServer {
    type Shown = Inspection;

    fn inspected(&mut self, now: &[ServerTime], key: Key) -> Inspection {
        match self.handle(now[0], SIMULATION, queue::Request::Inspect { key }).answer {
            queue::Answer::Inspected(inspection) => inspection,
            _ => Inspection::default(),
        }
    }
}

/// The simulation itself, when it asks a server directly: real clients are counted from one.
pub(super) const SIMULATION: ClientId = ClientId(0);

/// Returns the lock that a key belongs to. There are no other keys.
fn lock(key: &Key) -> Option<LockId> {
    NAMES.iter().position(|name| **name == **key)
}

fn attempt(key: &Key, owner: lock_core::Owner, label: &str, session: Option<SessionId>) -> RequestKind {
    // The label of a call is its number.
    match (lock(key), label.parse()) {
        (Some(lock), Ok(call)) => RequestKind::Attempt { lock, owner: shown(owner), call, session },
        _ => RequestKind::Nothing,
    }
}

fn release(key: &Key, owner: lock_core::Owner) -> RequestKind {
    lock(key).map_or(RequestKind::Nothing, |lock| RequestKind::Release { lock, owner: shown(owner) })
}

fn look(key: &Key) -> RequestKind {
    lock(key).map_or(RequestKind::Nothing, |lock| RequestKind::Look { lock })
}

fn revoke(key: &Key, when: When) -> RequestKind {
    lock(key).map_or(RequestKind::Nothing, |lock| RequestKind::Revoke { lock, when })
}

fn shown(owner: lock_core::Owner) -> OwnerBytes {
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
