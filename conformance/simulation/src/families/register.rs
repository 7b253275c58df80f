//! A server whose values are replaced if they have not changed.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver};
use lock_core::toolkit::{Change, Prefix, Row};
use lock_memory::ServerTime;
use lock_memory::register::Tells;
use lock_memory::server::queue::SessionId;
use lock_memory::server::register::{self, RegisterServer};
use lock_memory::server::{ClientId, Key, Server};
use lock_memory::wire::Wire;

use super::{Family, Holder, Part, RequestKind, SIMULATION, holder, lock, look, part};
use crate::ids::{CallId, LockId};
use crate::setting::TTL;

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
