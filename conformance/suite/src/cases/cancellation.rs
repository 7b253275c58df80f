//! Nothing is left behind, whatever is dropped, wherever, at whatever moment.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use lock_core::driver::Queueing;
use lock_core::{Client, Ending, ErrorKind, LossReason, Name, Options};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::Residue;
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, Waiter, ms, waiters_of};
use crate::timing::{Answered, Returned, assert_in_time, panic_on_purpose, released, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(
        acquire_dropped_at_every_await_leaves_nothing,
        "nothing-left, cancelled-acquire, future-dropped",
        [B1, B2, B17, B18]
    ),
    case!(
        acquire_dropped_at_any_time_leaves_nothing,
        "nothing-left, cancelled-acquire, future-dropped",
        [B1, B2, B18]
    ),
    case!(a_dropped_waiter_leaves_nothing, "nothing-left", [B5, B28]),
    case!(release_dropped_at_every_await_still_releases, "cancelled-release, future-dropped", [B18]),
    case!(a_guard_dropped_on_a_thread_without_runtime_releases, "guard-moves, guard-dropped-anywhere", [B19]),
    case!(a_guard_dropped_in_a_panic_releases, "guard-moves, guard-dropped-anywhere", [B19]),
    case!(
        a_guard_dropped_after_its_runtime_ends_by_ttl,
        "guard-after-runtime, guard-dropped-anywhere",
        [B19]
    ),
    case!(a_client_used_after_its_runtime_says_so, "runtime-ended, error-kinds", [B19]),
    case!(a_guard_dropped_as_the_programs_last_act_releases, "guard-no-gap, dedicated", [B19]),
    case!(a_shut_down_client_leaves_nothing, "shutdown", [B18, B28]),
    case!(shutdown_does_not_take_a_lock_from_its_guard, "shutdown", [B18]),
    case!(names_leave_no_residue, "no-residue", [B27, B28, B29]; load Heavy),
];

/// Waits until the lock is free, which it must be long before a lease of [`Setting::long`] ends: no client that went
/// away may have it.
async fn comes_free(s: &Setting, name: &Name) {
    until("it is free", bounds::before_the_end(s.long()), || s.is_free(name)).await;
}

/// Polls `future` at most `times` times. Returns whether it was done by then.
async fn poll_times(future: impl Future, times: usize) -> bool {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        if polls == times {
            return Poll::Ready(false);
        }
        polls += 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

/// Longer than any of these cases waits: a lock that is free was released.
const LONG: Duration = Duration::from_secs(25);
/// More polls than any of these futures takes.
const MANY: usize = 100;

/// Uses a free lock, and a lock that becomes free when the client that asks for it has already found its holder. The
/// holder is another client, or another task of the same client. Then the client has a place in a queue to leave, and
/// something to stop listening to.
async fn acquire_dropped_at_every_await_leaves_nothing(s: Setting) {
    let (client, other) = (s.client().await, s.client().await);
    for waits in [Queueing::No, Queueing::Queued] {
        for holder in [None, Some(&other), Some(&client)] {
            let mut times = 0;
            while !dropped_after(&s, &client, times, waits, holder).await {
                times += 1;
                assert!(times < MANY, "not at every await: it has more than {MANY}");
            }
        }
    }
}

/// Returns whether the call was done after `times` polls.
async fn dropped_after(
    s: &Setting,
    client: &Client,
    times: usize,
    waits: Queueing,
    holder: Option<&Client>,
) -> bool {
    let name = s.name();
    let lock = |client: &Client| client.lock(name.as_str()).ttl(LONG).built();
    let held = match holder {
        Some(holder) => Some(lock(holder).acquire().await.expect("the server is up")),
        None => None,
    };
    let is_held = AtomicBool::new(held.is_some());
    let asking = async {
        let lock = lock(client);
        let done = match waits {
            Queueing::No => poll_times(lock.try_acquire(), times).await,
            Queueing::Queued => poll_times(lock.acquire(), times).await,
        };
        let granted = done && waits == Queueing::Queued;
        assert!(!granted || !is_held.load(Ordering::SeqCst), "two at a time");
        done
    };
    let coming_free = async {
        if let Some(held) = held {
            // By then the client that asks waits for a wake-up, or for its next look.
            tokio::time::sleep(s.ttl() / 8).await;
            is_held.store(false, Ordering::SeqCst);
            released(held).await;
        }
    };
    let (done, ()) = tokio::join!(asking, coming_free);
    comes_free(s, &name).await;
    done
}

async fn acquire_dropped_at_any_time_leaves_nothing(s: Setting) {
    let (client, holder) = (s.client().await, s.client().await);
    for micros in (0..60).map(|n| n * n) {
        let name = s.name();
        let waiter = client.lock(name.as_str()).ttl(LONG).waits();
        aborted_after(micros, waiter).await;
        comes_free(&s, &name).await;
    }
    // A waiter goes away while the lock is handed over to it.
    for micros in (0..20).map(|n| n * n * 10) {
        let name = s.name();
        let held = holder.lock(name.as_str()).ttl(LONG).held().await;
        let waiter = client.lock(name.as_str()).ttl(LONG).waits();
        tokio::time::sleep(s.ttl() / 8).await;
        assert!(!waiter.is_finished());
        let released = tokio::spawn(held.release());
        aborted_after(micros, waiter).await;
        assert_eq!(released.await.expect("no panic"), Ending::Released);
        comes_free(&s, &name).await;
    }
}

async fn aborted_after(micros: u64, waiter: Waiter) {
    tokio::time::sleep(Duration::from_micros(micros)).await;
    waiter.abort();
    let _: Result<_, _> = waiter.await;
}

async fn a_dropped_waiter_leaves_nothing(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = client.lock(name.as_str()).ttl(s.long()).held().await;
    let waiter = s.client().await;
    for n in 0..30 {
        let lock = waiter.lock(name.as_str()).ttl(s.long()).built();
        let _: Result<_, _> = tokio::time::timeout(ms(n), lock.acquire()).await;
    }
    let lock = s.lock(&client, &name).built();
    until("no waiter is left", bounds::EVENTUALLY, || async { waiters_of(&lock).await == 0 }).await;
    released(guard).await;
    comes_free(&s, &name).await;
}

async fn release_dropped_at_every_await_still_releases(s: Setting) {
    let client = s.client().await;
    for times in 0..MANY {
        let name = s.name();
        let guard = client.lock(name.as_str()).ttl(LONG).held().await;
        let done = poll_times(guard.release(), times).await;
        comes_free(&s, &name).await;
        if done {
            return;
        }
    }
    panic!("not at every await: it has more than {MANY}");
}

async fn a_guard_dropped_on_a_thread_without_runtime_releases(s: Setting) {
    for options in [Options::default(), Options::default().dedicated()] {
        let (name, client) = (s.name(), s.client_with(options).await);
        let guard = s.hold_long_by(&client, &name).await;
        on_a_thread(move || drop(guard)).await;
        comes_free(&s, &name).await;
    }
}

async fn a_guard_dropped_in_a_panic_releases(s: Setting) {
    let name = s.name();
    let guard = s.hold_long(&name).await;
    let task = tokio::spawn(async move {
        let _guard = guard;
        panic_on_purpose("with a guard in hand");
    });
    assert!(task.await.is_err());
    comes_free(&s, &name).await;
}

/// Runs `work` on a runtime of its own, which ends before the guard does.
async fn in_a_runtime_that_ends<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    on_a_thread(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let out = runtime.block_on(work);
        runtime.shutdown_timeout(Duration::from_secs(1));
        out
    })
    .await
}

async fn a_guard_dropped_after_its_runtime_ends_by_ttl(s: Setting) {
    let (name, setting) = (s.name(), s.clone());
    let held = name.clone();
    let guard = in_a_runtime_that_ends(async move { setting.hold(&held).await }).await;
    assert!(!guard.is_held(), "nothing renews it any more");
    let told = within("it is told", bounds::EVENTUALLY, guard.lost()).await;
    assert_eq!(told, LossReason::RuntimeEnded);
    drop(guard);
    until("the ttl frees it", s.ttl() * 3 + ms(1000), || s.is_free(&name)).await;
}

async fn a_client_used_after_its_runtime_says_so(s: Setting) {
    let (name, setting) = (s.name(), s.clone());
    let client: Client = in_a_runtime_that_ends(async move { setting.client().await }).await;
    let lock = s.lock(&client, &name).wait(ms(200)).built();
    for outcome in
        [lock.acquire().await.map(drop), lock.try_acquire().await.map(drop), lock.inspect().await.map(drop)]
    {
        let error = outcome.expect_err("there is no runtime");
        assert!(error.to_string().contains("runtime"), "{error}");
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
    }
}

/// The time that the last handle of a dedicated client waits for its releases.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Drops the last handle. A release that was not done within its wait continues without it.
pub(super) fn takes_less_than_the_last_wait(last: impl FnOnce()) {
    let asked = Instant::now();
    last();
    assert_in_time!(asked.elapsed() < LAST_WAIT, "the release was not done after {:?}", asked.elapsed());
}

async fn a_guard_dropped_as_the_programs_last_act_releases(s: Setting) {
    let (name, setting) = (s.name(), s.clone());
    let held = name.clone();
    in_a_runtime_that_ends(async move {
        let client = setting.client_with(Options::default().dedicated()).await;
        let guard = client.lock(held.as_str()).ttl(LONG).held().await;
        drop(client);
        takes_less_than_the_last_wait(|| drop(guard));
    })
    .await;
    assert!(s.is_free(&name).await, "the last handle has waited for the release");
}

async fn a_shut_down_client_leaves_nothing(s: Setting) {
    let (held, busy) = (s.name(), s.name());
    let client = s.client().await;
    let other = s.hold(&busy).await;
    drop(client.lock(held.as_str()).ttl(LONG).held().await);
    let waiter = client.lock(busy.as_str()).ttl(LONG).waits();
    tokio::time::sleep(ms(50)).await;
    assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
    let turned_away = waiter.await.returned().expect_err("it was waiting");
    assert!(matches!(turned_away.kind(), ErrorKind::Unavailable { .. }), "{turned_away:?}");
    assert!(s.is_free(&held).await, "a shutdown releases a lock whose guard was dropped");
    let late = s.lock(&client, &held).built();
    assert!(late.acquire().await.is_err() && late.try_acquire().await.is_err());
    released(other).await;
    comes_free(&s, &busy).await;
}

async fn shutdown_does_not_take_a_lock_from_its_guard(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.hold_by(&client, &name).await;
    assert_eq!(client.shutdown(ms(50)).await, 1);
    // For longer than a lease lasts that is not renewed.
    tokio::time::sleep(s.ttl() * 4 / 3).await;
    released(guard).await;
    assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
}

/// Names are released, dropped and cancelled, with two clients on each. Nothing but tokens may remain.
async fn names_leave_no_residue(s: Setting, admin: Arc<dyn Residue>) {
    let clients = [s.client().await, s.client().await];
    let before = admin.residue().await;
    let rounds = s.size("names of two clients", 1000, 10_000) / 100;
    for round in 0..rounds as u64 {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..100 {
            let name = s.name();
            for client in &clients {
                let lock = client.lock(name.as_str()).ttl(s.ttl() * 20).built();
                tasks.spawn(async move {
                    match (round + n) % 3 {
                        0 => drop(tokio::time::timeout(ms(n % 7), lock.acquire()).await),
                        1 => drop(lock.acquire().answered().await),
                        _ => assert_eq!(lock.acquire().answered().await.release().await, Ending::Released),
                    }
                });
            }
        }
        tasks.join_all().await;
    }
    until("everything is gone", bounds::cleared(s.long()), || async { admin.residue().await <= before })
        .await;
}
