//! A server that compares and sets, with a lease for each lock.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver, Entry, Revoked};
use lock_core::toolkit::Prefix;
use lock_memory::ServerTime;
use lock_memory::lease::LeaseDriver;
use lock_memory::server::lease::{self, LeaseServer};
use lock_memory::server::{Key, Server};
use lock_memory::wire::Wire;

use super::{Family, RequestKind, SIMULATION, attempt, lock, look, release, revoke, shown};

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
            lease::Request::Attempt { key, owner, label, .. } => attempt(key, shown(owner), label, None),
            lease::Request::Succeed { key, predecessor, owner, label, .. } => {
                let (owner, predecessor) = (shown(owner), shown(predecessor));
                match (lock(key), label.parse()) {
                    (Some(lock), Ok(call)) => RequestKind::Takeover { lock, owner, call, predecessor },
                    _ => RequestKind::Nothing,
                }
            }
            lease::Request::Release { key, owner, .. } => release(key, shown(owner)),
            lease::Request::Revoke { key, when, .. } => revoke(key, *when),
            lease::Request::Inspect { key } => look(key),
            lease::Request::Renew { .. } => RequestKind::Proof,
            _ => RequestKind::Nothing,
        }
    }

    fn expiry(key: Key) -> Option<lease::Request> {
        Some(lease::Request::Expire { key })
    }

    fn entry(&mut self, now: ServerTime, key: Key) -> Option<Entry> {
        match self.handle(now, SIMULATION, lease::Request::Inspect { key }).answer {
            lease::Answer::Holder(entry) => entry,
            _ => None,
        }
    }

    fn is_grant(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Granted { .. } | lease::Answer::Succeeded { .. })
    }

    fn has_revoked(answer: &lease::Answer) -> bool {
        matches!(answer, lease::Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)))
    }
}
