//! A server with a queue for each lock, whose places belong to sessions.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver, Inspection, Revoked};
use lock_core::toolkit::Prefix;
use lock_memory::ServerTime;
use lock_memory::queue::QueueDriver;
use lock_memory::server::queue::{self, QueueServer, SessionId};
use lock_memory::server::{ClientId, Key, Server};
use lock_memory::wire::Wire;

use super::{
    Family, Holder, Part, RequestKind, SIMULATION, attempt, call, holder, look, part, release, revoke,
};
use crate::ids::CallId;

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
        inspected(self, now, key).holder.as_ref().and_then(holder)
    }

    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        inspected(self, now, key).holder.as_ref().and_then(part).into_iter().collect()
    }

    fn waiting(&mut self, now: &[ServerTime], key: Key) -> Vec<CallId> {
        inspected(self, now, key).waiters.iter().flatten().filter_map(call).collect()
    }

    fn is_grant(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Granted(_))
    }

    fn has_revoked(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}

/// Asks the server directly, without the network.
fn inspected(server: &mut QueueServer, now: &[ServerTime], key: Key) -> Inspection {
    match server.handle(now[0], SIMULATION, queue::Request::Inspect { key }).answer {
        queue::Answer::Inspected(inspection) => inspection,
        _ => Inspection::default(),
    }
}
