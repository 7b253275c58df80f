//! Giving the lock back when the command has ended.

use std::pin::pin;
use std::time::Duration;

use onelock::{Clock, Ending, Guard, Instant};

use super::LAST_REQUESTS;
use crate::os::Signals;
use crate::print;

/// One that comes sooner may be the same signal, told twice: the end of a session tells of itself by the shell and by the
/// terminal, and service managers send SIGHUP right behind SIGTERM.
const SECOND: Duration = Duration::from_secs(1);

/// What became of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// The lock was held until then.
    InTime,
    /// It was not, or the server could not be asked whether it was.
    TooLate,
    /// This signal came while the lock was only kept for its shortest time, be it that it was given back at the end of
    /// that, or that a second one left it to its lease.
    Signalled(i32),
}

/// Gives the lock back, which the core does no sooner than `kept_until`.
///
/// A signal means that this call is no longer wanted, and not that the name should be free: the next holder may be the
/// very run that the shortest time keeps out. So the first one is remembered, and the lock given back in time. A second
/// one ends the wait.
///
/// When the shortest time is over, a signal changes nothing for a server that answers. One that doesn't has a moment for
/// it from then on: without a signal a release takes until the lease ends.
pub(super) async fn release(
    guard: Guard,
    kept_until: Option<Instant>,
    clock: &Clock,
    signals: &mut Signals,
) -> Release {
    let name = guard.name().clone();
    let mut released = pin!(guard.release());
    let mut first: Option<(Instant, i32)> = None;
    let mut give_up: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            ending = &mut released => return match (ending, first) {
                (Ending::Released, None) => Release::InTime,
                (Ending::Released, Some((_, signal))) => Release::Signalled(signal),
                (Ending::Expired, _) => Release::TooLate,
            },
            () = at(give_up, clock) => return Release::TooLate,
            signal = signals.next() => {
                if !signal.asks_to_end() {
                    continue;
                }
                let now = clock.now();
                let left = kept_until.map(|until| until.since(now)).unwrap_or_default();
                give_up.get_or_insert(now + left + LAST_REQUESTS);
                match first {
                    _ if left.is_zero() => {}
                    Some((at, _)) if now.since(at) < SECOND => {}
                    Some(_) => return Release::Signalled(signal.number()),
                    None => {
                        first = Some((now, signal.number()));
                        print::note(format!(
                            "{name:?} is kept for {left:.1?} more (--min-hold) and given back then; \
                             a second signal, after {SECOND:?}, leaves it to its ttl"
                        ));
                    }
                }
            }
        }
    }
}

async fn at(moment: Option<Instant>, clock: &Clock) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
