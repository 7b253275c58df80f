//! The lease is kept while its holder lives, and its loss is told before any other client can hold the lock.

mod lost;
mod standstill;

use std::time::{Duration, Instant};

use lock_core::driver::{Lease, Revoked, When};
use lock_core::{Ending, ErrorKind, Event, LossReason, Options, OwnerBytes};
use tokio::sync::{mpsc, watch};

use crate::bounds;
use crate::case::{Case, case};
use crate::setting::{Contend, Setting, lost_at_its_end, lost_eventually, ms};
use crate::timing::{
    Answered, Returned, assert_lost_for, panic_on_purpose, released, still_held, too_late, until, within,
};
use lost::{
    a_dead_server_means_lost_at_the_deadline, a_forgotten_lock_is_lost_at_the_next_renewal,
    a_release_unanswered_by_a_dead_server_goes_on, at_risk_comes_before_lost,
    protect_drops_the_work_when_the_lock_goes,
};
use standstill::{
    a_dedicated_client_outlives_a_stalled_executor, a_loss_by_a_stalled_executor_comes_once,
    a_stalled_executor_is_told_at_its_next_step, a_suspend_is_noticed,
    clients_whose_clocks_are_hours_apart_agree,
};

pub(crate) const CASES: &[Case] = &[
    case!(a_live_holder_keeps_it, "ttl", [B1, B11]),
    case!(it_is_renewed_every_third_of_its_ttl, "ttl", [B1, B11]),
    case!(a_fixed_lease_ends_at_its_time, "release, fixed-lease", [B12]),
    case!(a_fixed_lease_is_renewed_by_hand, "renew", [B10, B12]),
    case!(another_client_releases_a_lock_that_was_left, "leave", [B9, B12]),
    case!(max_hold_ends_it_whatever_is_renewed, "max-hold", [B24]),
    case!(min_hold_delays_the_release, "min-hold", [B34]),
    case!(validity_counts_from_before_the_attempt, "validity, deadline-before-lease, margin", [B12]),
    case!(a_forgotten_lock_is_lost_at_the_next_renewal, "lost, server-forgets, key-deleted", [B10, B11]),
    case!(protect_drops_the_work_when_the_lock_goes, "protect, error-kinds", [B11, B20]),
    case!(run_acquires_protects_and_releases, "run", [B18]),
    case!(
        a_dead_server_means_lost_at_the_deadline,
        "loss-in-time, release, server-stands-still",
        [B11, B12, B20]
    ),
    case!(a_release_unanswered_by_a_dead_server_goes_on, "release", [B18]),
    case!(at_risk_comes_before_lost, "at-risk, server-stands-still", [B11]),
    case!(a_stalled_executor_is_told_at_its_next_step, "protect, stopped, executor-stands-still", [B20]),
    case!(a_loss_by_a_stalled_executor_comes_once, "executor-stalled, executor-stands-still", [B11, B20]),
    case!(an_observer_that_panics_costs_no_lock, "panic-of-observer, observer-panics", [B18]),
    case!(
        a_dedicated_client_outlives_a_stalled_executor,
        "executor-stalled, dedicated, executor-stands-still",
        [B20]
    ),
    case!(a_suspend_is_noticed, "suspend, stopped, client-sleeps", [B20]),
    case!(clients_whose_clocks_are_hours_apart_agree, "validity, clients-clocks", [B6]),
];

async fn a_live_holder_keeps_it(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    s.stays_held(&guard, s.ttl() * 4, s.ttl() / 8).await;
    s.freed(guard).await;
    // Nothing renews what was released.
    tokio::time::sleep(s.ttl()).await;
    assert!(s.is_free(&name).await);
}

/// Returns a ttl that is long enough to tell the next renewal from the one after it.
fn ttl_of_renewals(s: &Setting) -> Duration {
    s.ttl().max(ms(1600))
}

/// After which time it is renewed does not depend on the server: lock-core's
/// `renewal_comes_at_a_third_of_the_remaining_lease`.
async fn it_is_renewed_every_third_of_its_ttl(s: Setting) {
    let (telling, mut told) = mpsc::unbounded_channel();
    let options = Options::default().observer(move |event| {
        if let Event::Renewed { .. } = event {
            telling.send(()).expect("the case waits");
        }
    });
    let (client, ttl) = (s.client_with(options).await, ttl_of_renewals(&s));
    let guard = client.lock(s.name().as_str()).ttl(ttl).held().await;
    for _ in 0..2 {
        within("its next renewal", bounds::EVENTUALLY, told.recv()).await.expect("the client lives");
        still_held(&guard);
    }
    released(guard).await;
}

async fn a_fixed_lease_ends_at_its_time(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let asked = Instant::now();
    let guard = s.lock(&client, &name).fixed_lease().held().await;
    assert_eq!(lost_at_its_end(&guard).await, LossReason::Expired);
    assert!(asked.elapsed() >= s.ttl() * 3 / 4, "it lasted {:?} of {:?}", asked.elapsed(), s.ttl());
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    assert_eq!(guard.release().await, Ending::Expired);
}

async fn a_fixed_lease_is_renewed_by_hand(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.lock(&client, &name).fixed_lease().held().await;
    // For longer than a lease lasts.
    for _ in 0..3 {
        tokio::time::sleep(s.ttl() / 2).await;
        still_held(&guard);
        let left = guard.renew(s.ttl()).answered().await;
        assert!(left <= s.ttl(), "{left:?}");
    }
    still_held(&guard);
    assert_eq!(guard.renew(Duration::ZERO).await.expect_err("no ttl").kind(), ErrorKind::Invalid);
    lost_eventually(&guard).await;
    assert_eq!(guard.renew(s.ttl()).await.expect_err("it is over").kind(), ErrorKind::Lost);
}

/// The test `a_left_lock_is_neither_renewed_nor_released` of lock-core shows that the server is asked nothing more.
async fn another_client_releases_a_lock_that_was_left(s: Setting) {
    let (name, client, other) = (s.name(), s.client().await, s.client().await);
    let guard = s.hold_by(&client, &name).await;
    if s.info.lease == Lease::Session {
        assert_eq!(guard.leave().await.expect_err("its session ends").kind(), ErrorKind::Unsupported);
        return until("it is released", bounds::EVENTUALLY, || s.is_free(&name)).await;
    }
    guard.renew(s.long()).answered().await;
    let left = guard.leave().answered().await;
    assert_eq!(client.shutdown(ms(1000)).await, 0, "nothing of it is left in the client");
    drop(client);
    // For longer than the lease lasts that it was granted with.
    let end = Instant::now() + s.ttl() * 2;
    while Instant::now() < end {
        assert!(!s.is_free(&name).await, "its client has left");
        tokio::time::sleep(s.ttl() / 4).await;
    }
    // As another process does that was told the bytes.
    let lock = s.lock(&other, &name).ttl(s.long()).built();
    let holder = OwnerBytes::new(left.as_bytes());
    assert_eq!(lock.revoke(&holder, When::Now).answered().await, Revoked::Free);
    let next = lock.try_acquire().answered().await.expect("it is free");
    // It was released, and is the next holder's.
    assert_eq!(lock.revoke(&holder, When::Now).answered().await, Revoked::NotHeld);
    released(next).await;
}

/// Its exact end does not depend on the server: lock-core's `max_hold_ends_it_to_the_millisecond`.
async fn max_hold_ends_it_whatever_is_renewed(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let most = s.ttl() * 2;
    let asked = Instant::now();
    let guard = s.lock(&client, &name).max_hold(most).held().await;
    assert_lost_for(within("its end", most + bounds::EVENTUALLY, guard.lost()).await, LossReason::MaxHold);
    let held = asked.elapsed();
    assert!(held > s.ttl(), "{held:?}");
    assert!(!guard.is_held());
    until("it is free on the server", bounds::EVENTUALLY, || s.is_free(&name)).await;
}

/// When the release comes does not depend on the server: lock-core's `min_hold_goes_on_renewing` and
/// `a_release_is_answered_when_min_hold_is_over`.
async fn min_hold_delays_the_release(s: Setting) {
    tokio::join!(is_kept_for_min_hold(&s, true), is_kept_for_min_hold(&s, false));
}

/// Checks that a lock whose guard goes at once is kept for longer than a lease lasts, and then released.
async fn is_kept_for_min_hold(s: &Setting, by_drop: bool) {
    let (losing, lost) = watch::channel(None);
    let options = Options::default().observer(move |event| {
        if let Event::Lost { cause, .. } = event {
            losing.send_replace(Some(*cause));
        }
    });
    let (name, client) = (s.name(), s.client_with(options).await);
    let least = s.ttl() * 4 / 3;
    let started = Instant::now();
    let guard = s.lock(&client, &name).min_hold(least).held().await;
    let released = if by_drop {
        drop(guard);
        None
    } else {
        Some(tokio::spawn(guard.release()))
    };
    loop {
        let is_free = s.is_free(&name).await;
        // A look that was answered later than that may have been late.
        if started.elapsed() >= least - ms(50) {
            break;
        }
        if is_free {
            ended_too_soon(lost, started.elapsed(), s.ttl()).await;
        }
        tokio::time::sleep(s.ttl() / 8).await;
    }
    until("it is free afterwards", bounds::EVENTUALLY, || s.is_free(&name)).await;
    if let Some(released) = released
        && released.await.returned() == Ending::Expired
    {
        ended_too_soon(lost, started.elapsed(), s.ttl()).await;
    }
}

/// Fails the case because the lease was over before its time. That is lateness if the client was told that it could not
/// renew it.
async fn ended_too_soon(mut lost: watch::Receiver<Option<LossReason>>, after: Duration, ttl: Duration) -> ! {
    let expired = lost.wait_for(|cause| *cause == Some(LossReason::Expired));
    if let Ok(Ok(_)) = tokio::time::timeout(ttl, expired).await {
        too_late(&format!("over within {after:?}, because it could not be renewed"));
    }
    panic!("over within {after:?}");
}

async fn validity_counts_from_before_the_attempt(s: Setting) {
    for _ in 0..2 {
        let (name, client) = (s.name(), s.client().await);
        let guard = s.lock(&client, &name).fixed_lease().held().await;
        let (granted, left) = (Instant::now(), guard.valid_for());
        let most = s.ttl().mul_f64(0.99) - ms(2);
        assert!(left <= most, "{left:?} of {:?}", s.ttl());
        still_held(&guard);
        tokio::time::sleep(s.ttl() / 4).await;
        // The order matters: the time that passes between the two readings must not make the check fail.
        let passed = granted.elapsed();
        let left = guard.valid_for();
        assert!(left + passed <= most, "{left:?} of {:?}, {passed:?} after the grant", s.ttl());
    }
}

async fn run_acquires_protects_and_releases(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).ttl(s.long()).built();
    // In a task: the future of `run` has to be `Send`.
    let (there, here) = (lock.clone(), s.clone());
    let task = tokio::spawn(async move {
        there
            .run(async |guard| {
                still_held(guard);
                here.is_kept(guard, guard.name()).await;
                guard.token()
            })
            .await
    });
    let first = task.await.returned().expect("run");
    assert!(s.is_free(&name).await);
    let second = lock.try_run(async |guard| guard.token()).answered().await.expect("the lock is free");
    assert!(second > first);
    let guard = s.hold_long(&name).await;
    assert!(lock.try_run(async |_| panic!("not run")).await.expect("contention is no error").is_none());
    released(guard).await;
    let there = lock.clone();
    let failed = async move { there.run(async |_| panic_on_purpose("in the work")).await.map(|()| 0) };
    assert!(tokio::spawn(failed).await.is_err());
    let free = || async { lock.try_run(async |_| ()).answered().await.is_some() };
    until("a panic releases", bounds::before_the_end(s.long()), free).await;
}

async fn an_observer_that_panics_costs_no_lock(s: Setting) {
    let options = Options::default().observer(|_| panic_on_purpose("in the observer"));
    let (name, client) = (s.name(), s.client_with(options).await);
    let guard = s.lock(&client, &name).held().await;
    // For longer than a lease lasts that is not renewed.
    tokio::time::sleep(s.ttl() * 4 / 3).await;
    still_held(&guard);
    s.is_kept(&guard, &name).await;
    s.freed(guard).await;
}
