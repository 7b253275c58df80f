//! Decides whether a backend may give its answer where the model gave another. This is the only place that says what
//! the contract leaves open.

use std::time::Duration;

use lock_core::LossReason;
use lock_core::driver::{Fair, Info, Lease, Revoked, Wakes};

use super::side::{REVOKER, Said};

/// Returns why a backend may not give this answer; `None` if it may. `apart` is how far apart the same moment may be on
/// the two servers.
pub(super) fn objection(info: &Info, model: &Said, said: &Said, apart: Duration) -> Option<String> {
    let agrees = match (model, said) {
        (Said::Granted { token: a, left }, Said::Granted { token: b, left: also }) => {
            a == b && same_left(info, *left, *also, apart)
        }
        // A server that knows the end of the lease tells it. An end that is told too early only costs a look.
        (Said::Busy(a), Said::Busy(b)) => {
            let in_time = a.free_in.zip(b.free_in).is_none_or(|(a, b)| b <= a + apart);
            a.queued == b.queued && (in_time || info.lease == Lease::Session)
        }
        (Said::Held { left }, Said::Held { left: also }) => same_left(info, *left, *also, apart),
        (Said::Lost { cause: a, holder }, Said::Lost { cause: b, .. }) => {
            may_be_lost(info, *a, holder.as_deref(), *b)
        }
        // A server may not know whether another client waits, or may believe it for too long. It never denies it. (In a
        // queue, a client that listens without a place does not wait.)
        (Said::Released { others: model, .. }, Said::Released { others, elsewhere }) => {
            let waits = *elsewhere && *model == Some(true);
            !waits || *others != Some(false)
        }
        (Said::NotHeld, Said::NotHeld) | (Said::Listens, Said::Listens) => true,
        (Said::Listens, Said::CannotPush) => info.wakes == Wakes::Polled,
        (Said::Shown { holder: a, waiters: m }, Said::Shown { holder: b, waiters: n }) => {
            let queue = n.is_none() || m == n;
            queue
                && match (a, b) {
                    (None, None) => true,
                    (Some(a), Some(b)) => {
                        let lefts = a.left.zip(b.left);
                        a.label == b.label
                            && b.has_last_token.is_none_or(|last| Some(last) == a.has_last_token)
                            && lefts.is_none_or(|(a, b)| same_left(info, a, b, apart))
                    }
                    _ => false,
                }
        }
        (Said::Revoked(a), Said::Revoked(b)) => match (a, b) {
            (Revoked::FreeIn(a), Revoked::FreeIn(b)) => same_left(info, *a, *b, apart),
            _ => a == b,
        },
        _ => false,
    };
    (!agrees).then(|| format!("the backend says {said:?}, the model {model:?}; the same moment may be {apart:?} apart on the two"))
}

/// A session has a time of its own, so what is left of it is not compared.
fn same_left(info: &Info, model: Duration, said: Duration, apart: Duration) -> bool {
    info.lease == Lease::Session || model.abs_diff(said) <= apart
}

/// A server surely knows the present holder. It may have forgotten from whom the lock was taken, once that lease has
/// ended. It may remember that there was a revoke, but not of which holder. In a queue, an owner that asks again after
/// a loss may be told of that loss, or of what it has now. A revoke is never taken for the end of a session.
fn may_be_lost(info: &Info, model: LossReason, holder: Option<&str>, said: LossReason) -> bool {
    match (model, holder) {
        (LossReason::Revoked, _) if info.fair != Fair::No => {
            matches!(said, LossReason::Revoked | LossReason::Taken | LossReason::Gone)
        }
        (LossReason::Gone, _) if info.fair != Fair::No => {
            matches!(said, LossReason::Revoked | LossReason::Gone | LossReason::Session)
        }
        (LossReason::Revoked, Some(REVOKER)) => said == LossReason::Revoked,
        (LossReason::Revoked, Some(_)) => matches!(said, LossReason::Revoked | LossReason::Taken),
        (LossReason::Revoked, None) => matches!(said, LossReason::Revoked | LossReason::Gone),
        (LossReason::Taken, Some(REVOKER)) => matches!(said, LossReason::Revoked | LossReason::Taken),
        (LossReason::Gone | LossReason::Session, _) => matches!(said, LossReason::Gone | LossReason::Session),
        (model, _) => said == model,
    }
}
