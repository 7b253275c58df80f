//! Releases the lock when the command has ended.

use std::pin::pin;
use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Clock, Ending, Instant};

use super::hold::Hold;
use crate::acquisition::LAST_REQUESTS;
use crate::os::Signals;
use crate::print;

/// A second signal counts only after this time. One that comes sooner may be the same signal, sent twice: at the end of
/// a session both the shell and the terminal send it, and service managers send SIGHUP right after SIGTERM.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The outcome of the release, or of keeping the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The lock was held until its release.
    InTime,
    /// The lock is kept to the end of its slot.
    Kept,
    /// The lock was lost before, or the server could not be asked whether it was.
    TooLate,
    /// A signal came while the lock was only kept for its shortest time. The lock was released at the end of
    /// that time, or a second signal has left it to its lease.
    Signalled(i32),
}

/// Releases the lock. The core does so no sooner than `kept_until`.
///
/// A signal means that this call is no longer wanted. It does not mean that the name should become free: the next
/// holder may be the very run that the shortest time keeps out. So the first signal is remembered, and the lock is
/// still released at the proper time. A second signal ends the wait.
///
/// When the shortest time is over, a signal changes nothing if the server answers. If the server does not answer, the
/// signal limits the wait for it to a short time; without a signal, a release may take until the lease ends.
pub(crate) async fn release(
    hold: impl Into<Hold>,
    kept_until: Option<Instant>,
    clock: &Clock,
    signals: &mut Signals,
) -> Release {
    let hold = hold.into();
    let name = hold.name().clone();
    let mut released = pin!(hold.release());
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
                            "{name:?} is kept for {} more (--min-hold) and then released; \
                             a second signal, after {}, ends lock at once and leaves the lock to its ttl",
                            HumanDuration(left),
                            HumanDuration(SECOND)
                        ));
                    }
                }
            }
        }
    }
}

/// Returns at this moment; never, if there is none.
pub(crate) async fn at(moment: Option<Instant>, clock: &Clock) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
