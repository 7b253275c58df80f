//! What the simulation has to know of the two families of servers.

use std::sync::Arc;

use lock_core::driver::{Driver, Entry};
use lock_core::{Clock, OwnerBytes, Prefix, Result};
use lock_memory::ServerTime;
use lock_memory::lease::LeaseDriver;
use lock_memory::queue::QueueDriver;
use lock_memory::server::lease::{self, LeaseServer};
use lock_memory::server::queue::{self, QueueServer};
use lock_memory::server::{ClientId, Server};
use lock_memory::wire::Wire;

use super::NAME;
use super::log::CallId;

/// Who holds the lock, as the server has it.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) call: CallId,
}

/// What a request does, as far as the checker asks.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// An attempt of this owner, which belongs to this call.
    Attempt(OwnerBytes, CallId),
    /// A release by this owner.
    Release(OwnerBytes),
    /// Something else by which the holder may change.
    Other,
}

/// A server that can be simulated.
pub(super) trait Family: Server {
    /// Its driver.
    type Driver: Driver;

    /// Whether it promises anything to those who set its clock.
    const STEPS: bool;

    /// A server that begins now.
    fn begin(now: ServerTime) -> Self;

    /// A driver at this end of a wire, on the current runtime.
    fn driver(wire: Arc<dyn Wire<Self>>, clock: Clock) -> Result<Self::Driver>;

    /// What a request does; nothing, if the holder stays whatever comes of it.
    fn deed(request: &Self::Request) -> Option<Deed>;

    /// Who holds the lock now.
    fn holder(server: &mut Self, now: ServerTime) -> Option<Holder>;
}

impl Family for LeaseServer {
    type Driver = LeaseDriver;

    const STEPS: bool = true;

    fn begin(_now: ServerTime) -> LeaseServer {
        LeaseServer::default()
    }

    fn driver(wire: Arc<dyn Wire<LeaseServer>>, clock: Clock) -> Result<LeaseDriver> {
        Ok(LeaseDriver::new(wire, "simulated", Prefix::default(), clock))
    }

    fn deed(request: &lease::Request) -> Option<Deed> {
        match request {
            lease::Request::Attempt { owner, label, .. } => Some(attempt(*owner, label.as_str())),
            lease::Request::Release { owner, .. } => Some(Deed::Release(shown(*owner))),
            _ => None,
        }
    }

    fn holder(server: &mut LeaseServer, now: ServerTime) -> Option<Holder> {
        match server.handle(now, NOBODY, lease::Request::Inspect { key: NAME.into() }).answer {
            lease::Answer::Holder(entry) => entry.as_ref().and_then(holder),
            _ => None,
        }
    }
}

impl Family for QueueServer {
    type Driver = QueueDriver;

    /// A session server measures time by itself: nobody sets that clock.
    const STEPS: bool = false;

    fn begin(now: ServerTime) -> QueueServer {
        QueueServer::new(now)
    }

    fn driver(wire: Arc<dyn Wire<QueueServer>>, clock: Clock) -> Result<QueueDriver> {
        let runtime = tokio::runtime::Handle::current();
        Ok(QueueDriver::new(wire, "simulated", Prefix::default(), clock, runtime))
    }

    fn deed(request: &queue::Request) -> Option<Deed> {
        match request {
            queue::Request::Attempt { owner, label, .. } => Some(attempt(*owner, label.as_str())),
            queue::Request::Release { owner, .. } => Some(Deed::Release(shown(*owner))),
            queue::Request::CloseSession { .. } => Some(Deed::Other),
            _ => None,
        }
    }

    fn holder(server: &mut QueueServer, now: ServerTime) -> Option<Holder> {
        match server.handle(now, NOBODY, queue::Request::Inspect { key: NAME.into() }).answer {
            queue::Answer::Inspected(inspection) => inspection.holder.as_ref().and_then(holder),
            _ => None,
        }
    }
}

/// Who looks past the network: real clients are counted from one.
const NOBODY: ClientId = ClientId(0);

fn attempt(owner: lock_core::Owner, label: &str) -> Deed {
    // Each call has its number for a label.
    label.parse().map_or(Deed::Other, |call| Deed::Attempt(shown(owner), call))
}

fn shown(owner: lock_core::Owner) -> OwnerBytes {
    OwnerBytes::new(*owner.as_bytes())
}

fn holder(entry: &Entry) -> Option<Holder> {
    Some(Holder { call: entry.label.as_deref()?.parse().ok()? })
}
