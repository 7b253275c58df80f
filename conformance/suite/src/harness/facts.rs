//! What is true of a server, for cases that could show nothing elsewhere. The harness says it by returning a value of
//! the type.

/// What one connection has sent asks the same of the server when another connection sends it again.
#[derive(Clone, Copy, Debug)]
pub struct Replays;

impl Replays {
    /// What the suite cannot do where this is not true.
    pub const WHAT: &'static str = "ask everything twice";
}

/// The first answer to an attempt grants the lock, on a name that was used before.
#[derive(Clone, Copy, Debug)]
pub struct OneTrip;

impl OneTrip {
    /// What the suite cannot do where this is not true.
    pub const WHAT: &'static str = "grant by the first answer of an attempt";
}

/// A connection is used again however long it was silent.
#[derive(Clone, Copy, Debug)]
pub struct IdleConnection;

impl IdleConnection {
    /// What the suite cannot do where this is not true.
    pub const WHAT: &'static str = "use a connection that was silent for a long time";
}

/// The server tells the time by which its leases end, counted from 1970.
#[derive(Clone, Copy, Debug)]
pub struct ToldTime;

impl ToldTime {
    /// What the suite cannot do where this is not true.
    pub const WHAT: &'static str = "read the clock by which the server ends leases";
}

/// Servers that belong to one case keep acknowledged data over a kill.
#[derive(Clone, Copy, Debug)]
pub struct Durable;

impl Durable {
    /// What the suite cannot do where this is not true.
    pub const WHAT: &'static str = "restart a server with its data";
}
