//! Pauses: after an error, and between two attempts where the server doesn't push.

use std::time::Duration;

use crate::random::Random;

/// Where wake-ups are pushed, these attempts are only a safety net: a crashed holder announces nothing, and a message
/// can be lost.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// Returns the pause before the `round`-th repetition of something that failed: exponential with jitter, 10 ms to 1 s.
pub(crate) fn after_error(round: u32, random: &Random) -> Duration {
    exponential(Duration::from_millis(10), Duration::from_secs(1), round, random)
}

/// Returns the pause before a feed connects again, after `failures` connections in a row that served no claim:
/// exponential with jitter, 50 ms to 2 s.
pub(crate) fn before_connecting(failures: u32, random: &Random) -> Duration {
    exponential(Duration::from_millis(50), Duration::from_secs(2), failures, random)
}

/// Doubles `first` for each round, up to `longest`. The upper half of it is random.
fn exponential(first: Duration, longest: Duration, round: u32, random: &Random) -> Duration {
    let ceiling = first.saturating_mul(1 << round.min(7)).min(longest);
    ceiling / 2 + random.up_to(ceiling / 2)
}

/// By how much a runtime's timer may be late: it counts whole milliseconds and rounds up, and so does the system call
/// in which it sleeps.
const TIMER: Duration = Duration::from_millis(2);

/// Returns the pause between two attempts for a held lock whose release is not announced: an eighth of the time waited
/// so far, so that a short wait is answered soon and a long one is cheap. It is 5 to 250 ms, and the timer has fired by
/// then.
pub(crate) fn poll(waited: Duration, random: &Random) -> Duration {
    let pause = (waited / 8).clamp(Duration::from_millis(5), Duration::from_millis(250)) - TIMER;
    pause * 7 / 8 + random.up_to(pause / 8)
}

/// Returns the pause between two attempts for a held lock whose release is pushed.
pub(crate) fn safety(random: &Random) -> Duration {
    SAFETY_POLL * 3 / 4 + random.up_to(SAFETY_POLL / 4)
}

/// Returns the pause before the attempt that follows a lease which ends in `free_in`: a moment after its end, with a
/// little jitter, because all waiters know that end.
pub(crate) fn after_lease(free_in: Duration, random: &Random) -> Duration {
    free_in.saturating_add(Duration::from_millis(1)).saturating_add(random.up_to(Duration::from_millis(5)))
}
