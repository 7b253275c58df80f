//! Cases have to know these facts of a backend and its servers.

use std::time::Duration;

use super::{Missing, Needed, Promise};
use crate::setting::Setting;

/// The shortest ttl for a server that answers within about a millisecond.
pub const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// Facts about a backend and its servers. Those that some cases could show nothing without are values of a type of their
/// own, or the reason why they are not so.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The shortest ttl at which the server keeps time well enough to be tested.
    pub ttl: Duration,
    /// By how much a holder's age, as the server's answers show it, may be too short.
    pub age_too_short_by: Duration,
    /// The largest number of held locks that one request can prove, on a server that keeps sessions.
    pub proven_at_once: usize,
    /// A fork of a process that has clients can open one of its own. If not, opening it says so.
    pub opens_in_forks: bool,
    /// A connection carries several requests at a time, and frames of its own besides them. Then a chunk of bytes is
    /// not one answer, and the only way to lose an answer is to lose everything in that direction of the connection.
    pub multiplexes: bool,
    /// The promises that the backend's documents make of its servers. If they promise different things of several kinds
    /// of server, what the server says of itself has to agree with one of them.
    pub promised: Vec<Promise>,
    /// Not so where each connection begins with a session of its own.
    pub replays: Result<Replays, Missing>,
    /// Not so where a look comes before an attempt.
    pub one_trip: Result<OneTrip, Missing>,
    /// Not so where another connection takes its place.
    pub idle_connection: Result<IdleConnection, Missing>,
    /// Where this is not so, the suite checks that locks which are held once per period are refused.
    pub told_time: Result<ToldTime, Missing>,
    /// Not so where the acknowledged data may be elsewhere.
    pub durable: Result<Durable, Missing>,
}

/// Bytes that one connection has sent ask the same of the server when another connection sends it again.
#[derive(Clone, Copy, Debug)]
pub struct Replays;

/// The first answer to an attempt grants the lock, on a name that was used before.
#[derive(Clone, Copy, Debug)]
pub struct OneTrip;

/// A connection is used again however long it was silent.
#[derive(Clone, Copy, Debug)]
pub struct IdleConnection;

/// The server tells the time by which its leases end, counted from 1970.
#[derive(Clone, Copy, Debug)]
pub struct ToldTime;

/// Servers that belong to one case keep acknowledged data over a kill.
#[derive(Clone, Copy, Debug)]
pub struct Durable;

impl Facts {
    /// Returns the facts of a backend whose documents promise this. Its server is quick, has a connection for each request
    /// that is under way, and tells no time. Everything else is so.
    pub fn promising(promised: impl Into<Vec<Promise>>) -> Facts {
        Facts {
            ttl: SHORTEST_TTL,
            age_too_short_by: Duration::ZERO,
            proven_at_once: usize::MAX,
            opens_in_forks: true,
            multiplexes: false,
            promised: promised.into(),
            replays: Ok(Replays),
            one_trip: Ok(OneTrip),
            idle_connection: Ok(IdleConnection),
            told_time: Err(Missing::because("the harness does not say that the server tells its time")),
            durable: Ok(Durable),
        }
    }
}

macro_rules! needed {
    ($($field:ident: $fact:ident),+) => {$(
        impl Needed for $fact {
            fn of(setting: &Setting) -> Result<Self, Missing> {
                setting.facts.$field.clone()
            }
        }
    )+};
}

needed!(replays: Replays, one_trip: OneTrip, idle_connection: IdleConnection, told_time: ToldTime, durable: Durable);
