//! How long things may take at most, by what a backend says of itself and by nothing else.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Lease, Wakes};

/// From the death of a holder, who asked for leases of `ttl`, to the grant of who waits.
pub(crate) fn after_a_death(info: &Info, ttl: Duration) -> Duration {
    match (info.lease, info.wakes) {
        // A waiter knows when the lease ends. Who has to look has not looked in the meantime.
        (Lease::Lock, Wakes::Pushed) => ttl + Duration::from_millis(100),
        (Lease::Lock, Wakes::Polled) => ttl + LONGEST_POLL,
        // Its server looks for sessions that are over each second or so.
        (Lease::Session, _) => ttl + Duration::from_secs(1),
    }
}

/// The same, if the server was started again in between and answered nobody for `down`.
#[cfg(feature = "servers")]
pub(crate) fn after_a_death_and_a_restart(info: &Info, ttl: Duration, down: Duration) -> Duration {
    let found_again = Duration::from_secs(1);
    match info.lease {
        Lease::Lock => after_a_death(info, ttl) + down + found_again,
        // A server that comes back gives every session its whole time once more.
        Lease::Session => ttl + after_a_death(info, ttl) + down + found_again,
    }
}

/// From the moment that a lock becomes free without a word to the answer to the next look of a waiter that has waited for
/// so long, where the server tells none: what is added to a wait is small against it, and a long one costs the server
/// little.
pub(crate) fn poll(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_millis(5), LONGEST_POLL) + TOLD
}

/// From the moment that a server has something to say to a holder, which it does not push, to the next renewal of a
/// lease of `ttl`, whose answer says it.
pub(crate) fn next_renewal(ttl: Duration) -> Duration {
    ttl / 3 + Duration::from_millis(150)
}

/// How long one request of a lock with a lease of `ttl` takes at most, until its caller is told.
pub(crate) fn patience(ttl: Duration) -> Duration {
    (ttl / 3).clamp(Duration::from_millis(100), Duration::from_secs(5)) + TOLD
}

/// How long a caller that waits for at most `wait` waits until it is told that this is over: a server has 100 ms for its
/// first answer, however short the wait is.
pub(crate) fn wait(wait: Duration) -> Duration {
    wait.max(Duration::from_millis(100)) + TOLD
}

/// From the end of a suspend that outlasted a lease of `ttl` to the moment that its holder is told.
pub(crate) fn after_a_suspend(ttl: Duration) -> Duration {
    (ttl / 10).clamp(Duration::from_millis(20), Duration::from_secs(1)) + Duration::from_millis(100)
}

/// Until an answer is there: that of a look, or that of an error, for which the holder may have to be looked for.
const TOLD: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_millis(250);
/// How often a process asks that has waited for ten seconds and is not told.
pub(crate) const ASKS_A_SECOND: u32 = 5;
