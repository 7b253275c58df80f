//! A server that compares and sets, with a lease for each lock.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver, Entry, Revoked};
use lock_core::toolkit::Prefix;
use lock_memory::ServerTime;
use lock_memory::lease::LeaseDriver;
use lock_memory::server::lease::{self, LeaseServer};
use lock_memory::server::queue::SessionId;
use lock_memory::server::{ClientId, Key, Server};
use lock_memory::wire::Wire;

use super::{
    Family, Holder, Part, RequestKind, SIMULATION, attempt, holder, look, part, release, revoke, takeover,
};
use crate::ids::CallId;

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
            lease::Request::Succeed { key, predecessor, owner, label, .. } => {
                takeover(key, *predecessor, *owner, label.as_str())
            }
            lease::Request::Release { key, owner, .. } => release(key, *owner),
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
        inspected(self, now, key).as_ref().and_then(holder)
    }

    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        inspected(self, now, key).as_ref().and_then(part).into_iter().collect()
    }

    fn waiting(&mut self, _now: &[ServerTime], _key: Key) -> Vec<CallId> {
        Vec::new()
    }

    fn is_grant(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Granted { .. } | lease::Answer::Succeeded { .. })
    }

    fn has_revoked(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}

/// Asks the server directly, without the network.
fn inspected(server: &mut LeaseServer, now: &[ServerTime], key: Key) -> Option<Entry> {
    match server.handle(now[0], SIMULATION, lease::Request::Inspect { key }).answer {
        lease::Answer::Holder(entry) => entry,
        _ => None,
    }
}
