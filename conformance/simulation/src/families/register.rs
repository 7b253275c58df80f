//! A server whose values are replaced if they have not changed.

use std::sync::Arc;

use lock_core::Result;
use lock_core::driver::{Context, Driver, Entry};
use lock_core::toolkit::{Change, Prefix, Row};
use lock_memory::ServerTime;
use lock_memory::register::Tells;
use lock_memory::server::Key;
use lock_memory::server::register::{self, RegisterServer};
use lock_memory::wire::Wire;

use super::{Family, RequestKind, attempt, look, release, revoke};
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
                Row::parse(value).map_or(RequestKind::Nothing, |row| of_row(key, &row))
            }
            register::Request::Get { key } => look(key),
            _ => RequestKind::Nothing,
        }
    }

    fn expiry(key: Key) -> Option<register::Request> {
        Some(register::Request::Expire { key })
    }

    fn entry(&mut self, now: ServerTime, key: Key) -> Option<Entry> {
        RegisterServer::holder(self, now, &key)
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
fn of_row(key: &Key, row: &Row) -> RequestKind {
    match row.change() {
        Change::Granted => attempt(key, row.owner(), row.label(), None),
        Change::Renewed => RequestKind::Proof,
        Change::Released => release(key, row.owner()),
        Change::Revoked(when) => revoke(key, when),
    }
}
