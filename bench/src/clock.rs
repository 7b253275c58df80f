//! A clock that two processes of one machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since an origin that is the same for every process of this machine. Monotonic.
pub(crate) fn shared_now() -> Duration {
    time_of(ClockId::Monotonic)
}

/// Returns the CPU time that this process has used on all cores.
pub(crate) fn cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Neither field of these clocks is ever negative, and their nanoseconds stay below a second.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
