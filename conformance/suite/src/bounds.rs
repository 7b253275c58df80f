//! The longest times that things may take. The bounds depend only on what a backend says of itself (`Info`).

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Lease, Wakes};

/// Returns the longest time from the death of a holder, whose leases last for `ttl`, to the grant of the next waiter.
pub(crate) fn after_a_death(info: &Info, ttl: Duration) -> Duration {
    match (info.lease, info.wakes) {
        // A waiter knows when the lease ends. A waiter that polls has not looked in the meantime.
        (Lease::Lock, Wakes::Pushed) => ttl + Duration::from_millis(100),
        (Lease::Lock, _) => ttl + LONGEST_POLL,
        // The server looks for ended sessions about once a second.
        _ => ttl + Duration::from_secs(1),
    }
}

/// Returns the same bound if the server was restarted in between and did not answer for `down`.
pub(crate) fn after_a_death_and_a_restart(info: &Info, ttl: Duration, down: Duration) -> Duration {
    let found_again = Duration::from_secs(1);
    match info.lease {
        Lease::Lock => after_a_death(info, ttl) + down + found_again,
        // A restarted server gives every session its full timeout again.
        _ => ttl + after_a_death(info, ttl) + down + found_again,
    }
}

/// Returns the longest time from the moment a server has news for a holder, which it does not push, to the next renewal
/// of a lease of `ttl`, whose answer has that news.
pub(crate) fn next_renewal(ttl: Duration) -> Duration {
    ttl / 3 + Duration::from_millis(150)
}

/// Returns how long one request for a lock with a lease of `ttl` takes at most, until its caller is told.
pub(crate) fn patience(ttl: Duration) -> Duration {
    (ttl / 3).clamp(Duration::from_millis(100), Duration::from_secs(5)) + TOLD
}

/// Returns how long something may take that has to come before a lease of `ttl` ends by itself. That end would look the
/// same to a case that watches the server.
pub(crate) fn before_the_end(ttl: Duration) -> Duration {
    ttl / 2
}

/// Returns how long it may take until nothing but tokens is left of locks with leases of `ttl`.
pub(crate) fn cleared(ttl: Duration) -> Duration {
    before_the_end(ttl).max(Duration::from_secs(5))
}

/// For what only has to come. When it comes does not depend on the backend: that is measured where the core's time is
/// virtual, by `lock-core/tests/life`. So no busy machine comes near to this.
pub(crate) const EVENTUALLY: Duration = Duration::from_secs(10);

/// Time for an answer: that of a look, or that of an error.
const TOLD: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_millis(250);
/// The number of requests a second from a process that has waited for ten seconds and gets no wake-ups.
pub(crate) const ASKS_A_SECOND: u32 = 5;
