//! Waiting where the server sends no wake-ups: a client looks often enough, and not more often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::driver::Wakes;
use lock_core::{Ending, Options};
use tokio::task::JoinSet;

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Count, Forget};
use crate::setting::{Contend, Setting, granted_within, ms};
use crate::suspendable::Suspendable;
use crate::timing::{Answered, Returned, released, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_look_comes_within_an_eighth_of_the_wait, "looks-by-itself", [B4, B30]; if is_polled),
    case!(a_waiter_that_has_waited_long_asks_seldom, "looks-by-itself", [B30]; load Heavy; if is_polled),
];

fn is_polled(s: &Setting) -> bool {
    s.info.wakes == Wakes::Polled
}

const LONG: Duration = Duration::from_secs(30);

/// Makes the lock free without notification. To a waiter that polls, a release by another process is the same. How soon
/// it looks does not depend on the server: lock-core's `a_polling_waiter_looks_within_an_eighth_of_wait`.
async fn a_look_comes_within_an_eighth_of_the_wait(s: Setting, admin: Arc<dyn Forget>) {
    let mut waiters = JoinSet::new();
    for wait in [50, 200, 700].map(ms) {
        for _ in 0..3 {
            waiters.spawn(looks_after(s.clone(), admin.clone(), wait));
        }
    }
    waiters.join_all().await;
}

/// Frees the lock when the waiter has waited for so long. The lease would have kept it for much longer.
async fn looks_after(s: Setting, admin: Arc<dyn Forget>, wait: Duration) {
    let (name, holder) = (s.name(), s.client().await);
    let _held = s.holding_claim(&holder, &name, LONG).await;
    let waiting = s.lock_elsewhere(&name).await.ttl(LONG).waits();
    tokio::time::sleep(wait).await;
    assert!(!waiting.is_finished());
    admin.forget(&name).await;
    released(granted_within("the next look", bounds::EVENTUALLY, waiting).await).await;
}

/// Ten seconds of sleep count as ten seconds of waiting.
async fn a_waiter_that_has_waited_long_asks_seldom(s: Setting, admin: Arc<dyn Count>) {
    const SECONDS: u64 = 2;
    let (name, machine) = (s.name(), Suspendable::default());
    let holder = s.client().await;
    let mut held = s.holding_claim(&holder, &name, LONG * 2).await;
    let waiter = s.client_with(Options::default().clock(machine.clock())).await;
    let lock = waiter.lock(name.as_str()).ttl(LONG).built();
    let waiting = tokio::spawn(async move { lock.acquire().answered().await.release().await });
    tokio::time::sleep(ms(100)).await;
    machine.sleeps(Duration::from_secs(10));
    // A waiter looks at once after a suspend.
    tokio::time::sleep(ms(500)).await;
    // Reading the counter may itself be a request.
    let counted = admin.counters().await.requests;
    let began = Instant::now();
    let before = admin.counters().await.requests;
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let asked = admin.counters().await.requests - before - (before - counted);
    // On a busy machine both sleeps may take longer.
    let took = began.elapsed();
    assert!(!waiting.is_finished());
    let most = (took.as_secs_f64() * f64::from(bounds::ASKS_A_SECOND)).ceil() as u64;
    assert!(asked <= most, "{asked} requests in {took:?}: no more than {most} are promised");
    held.release().answered().await;
    assert_eq!(within("the next look", bounds::EVENTUALLY, waiting).await.returned(), Ending::Released);
}
