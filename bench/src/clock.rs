//! A clock that two processes of one machine share.

use std::time::Duration;

/// Returns the time since an origin that is the same for every process of this machine. Monotonic.
#[cfg(unix)]
pub(crate) fn shared_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Neither field of a monotonic clock is ever negative, and its nanoseconds stay below a second.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Returns the wall clock's time. By the standard library's documentation, it is the only clock that processes share
/// here. It may be set meanwhile.
#[cfg(not(unix))]
pub(crate) fn shared_now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
