//! The numbers by which logs and servers name calls and locks.

/// The number of a call, from zero. A call asks for a lock, or revokes one.
pub type CallId = usize;

/// The number of a lock, from zero.
pub type LockId = usize;
