//! A clock that two processes of one machine share.

use std::time::Duration;

/// Since an origin that is the same for every process of this machine. Monotonic.
#[cfg(unix)]
pub(crate) fn shared_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Both fields of a monotonic clock are never negative, and its nanoseconds stay below a second.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// The wall clock: the only one that processes share here by what the standard library says. It may be set meanwhile.
#[cfg(not(unix))]
pub(crate) fn shared_now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
