//! Keeps the slot of a command that has ended well.

use std::pin::pin;

use onelock::{Clock, Completion, Instant, PeriodicGuard};

use super::release::{Release, at};
use crate::acquisition::LAST_REQUESTS;
use crate::os::Signals;
use crate::print;

/// Keeps the slot to its end. The core waits for that end if it is near: less than one ttl away.
///
/// A signal limits this to the time of the last requests. Then the lock stays to the slot's end, or as long as its lease
/// lasts: it is not given back.
pub(super) async fn complete(guard: PeriodicGuard, clock: &Clock, signals: &mut Signals) -> Release {
    let name = guard.name().clone();
    let mut completed = pin!(guard.complete());
    let mut signalled: Option<(Instant, i32)> = None;
    loop {
        tokio::select! {
            biased;
            completion = &mut completed => return match (completion, signalled) {
                (Completion::Lost, _) => Release::TooLate,
                (_, Some((_, signal))) => Release::Signalled(signal),
                (Completion::Kept, None) => Release::Kept,
                (Completion::SlotOver, None) => {
                    print::note(format!("{name:?} is released: the command has taken longer than its slot"));
                    Release::InTime
                }
            },
            signal = given_up(signalled, clock) => return Release::Signalled(signal),
            signal = signals.next() => if signal.asks_to_end() {
                signalled.get_or_insert((clock.now() + LAST_REQUESTS, signal.number()));
            },
        }
    }
}

/// Returns the signal when the time is over that it leaves.
async fn given_up(signalled: Option<(Instant, i32)>, clock: &Clock) -> i32 {
    at(signalled.map(|(over, _)| over), clock).await;
    signalled.map_or(0, |(_, signal)| signal)
}
