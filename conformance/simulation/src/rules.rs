//! The rules of a history: on which servers it is played, and what wakes waiters.

use super::named::named;

/// The rules of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The kind of servers.
    pub family: FamilyName,
    /// The number of servers.
    pub servers: usize,
    /// The events that wake waiters.
    pub wakes: WakesBy,
}

named! {
    /// The kind of servers that a history simulates.
    pub enum FamilyName {
        /// Compare-and-set with a lease per lock.
        Lease = "lease",
        /// A queue per lock, whose places belong to sessions.
        Queue = "queue",
        /// Compare-and-set with a lease per lock on several servers, of which a majority decides.
        Redlock = "redlock",
        /// Values that are replaced if they have not changed.
        Register = "register",
    }
}

/// The events that wake waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakesBy {
    /// Pushes of the servers, and looks of the waiters' own.
    PushesAndLooks,
    /// Pushes alone: the core's next look is seconds away, and no message is lost or late.
    PushesAlone,
}
