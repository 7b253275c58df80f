//! A server with a queue for each lock, whose places belong to sessions.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver, Entry, Inspection, Revoked};
use lock_core::toolkit::Prefix;
use lock_memory::ServerTime;
use lock_memory::queue::QueueDriver;
use lock_memory::server::queue::{self, QueueServer, SessionId};
use lock_memory::server::{Key, Server};
use lock_memory::wire::Wire;

use super::{Family, RequestKind, SIMULATION, attempt, call, look, release, revoke, shown};
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
                attempt(key, shown(owner), label, Some(*session))
            }
            queue::Request::Release { key, owner, .. } => release(key, shown(owner)),
            queue::Request::Revoke { key, when, .. } => revoke(key, *when),
            queue::Request::Inspect { key } => look(key),
            queue::Request::Heartbeat { .. } => RequestKind::Proof,
            queue::Request::CloseSession { .. } => RequestKind::Close,
            _ => RequestKind::Nothing,
        }
    }

    fn expiry(key: Key) -> Option<queue::Request> {
        Some(queue::Request::Expire { key })
    }

    fn end_session(session: SessionId) -> Option<queue::Request> {
        Some(queue::Request::CloseSession { session })
    }

    fn entry(&mut self, now: ServerTime, key: Key) -> Option<Entry> {
        inspected(self, now, key).holder
    }

    fn waiting(&mut self, now: &[ServerTime], key: Key) -> Vec<CallId> {
        inspected(self, now[0], key).waiters.iter().flatten().filter_map(call).collect()
    }

    fn is_grant(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Granted(_))
    }

    fn has_revoked(answer: &queue::Answer) -> bool {
        matches!(answer, queue::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}

/// Asks the server directly, without the network.
fn inspected(server: &mut QueueServer, now: ServerTime, key: Key) -> Inspection {
    match server.handle(now, SIMULATION, queue::Request::Inspect { key }).answer {
        queue::Answer::Inspected(inspection) => inspection,
        _ => Inspection::default(),
    }
}
