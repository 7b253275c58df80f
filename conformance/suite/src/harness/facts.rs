//! Facts about a server, for cases that could show nothing elsewhere. The harness says it by returning a value of
//! the type.

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
