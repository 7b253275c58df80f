//! The lease is kept while its holder lives, and its loss is told before any other client can hold the lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Client, Ending, ErrorKind, Event, LossReason, Options};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::work::Endless;
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Forget, OwnServers};
use crate::setting::{Setting, joined, lost_at_its_end, lost_eventually, lost_in_time, ms, renewed};
use crate::suspendable::Suspendable;
use crate::timing::{
    Answered, Returned, assert_in_time, assert_lost_for, panic_on_purpose, released, still_held, too_late,
    until, within,
};

pub(crate) const CASES: &[Case] = &[
    case!(a_live_holder_keeps_it, [B1, B11]),
    case!(it_is_renewed_every_third_of_its_ttl, [B1, B11]),
    case!(a_fixed_lease_ends_at_its_time, [B12]),
    case!(a_fixed_lease_is_renewed_by_hand, [B10, B12]),
    case!(max_hold_ends_it_whatever_is_renewed, [B24]),
    case!(min_hold_delays_the_release, [B34]),
    case!(validity_counts_from_before_the_attempt, [B12]),
    case!(a_forgotten_lock_is_lost_at_the_next_renewal, [B10, B11]),
    case!(protect_drops_the_work_when_the_lock_goes, [B11, B20]),
    case!(run_acquires_protects_and_releases, [B18]),
    case!(a_dead_server_means_lost_at_the_deadline, [B11, B12, B20]),
    case!(a_release_that_a_dead_server_did_not_answer_goes_on, [B18]),
    case!(at_risk_comes_before_lost, [B11]),
    case!(a_stalled_executor_is_told_at_its_next_step, [B20]),
    case!(a_loss_that_a_stalled_executor_brings_is_told_once, [B11, B20]),
    case!(an_observer_that_panics_costs_no_lock, [B18]),
    case!(a_dedicated_client_outlives_a_stalled_executor, [B20]),
    case!(a_suspend_is_noticed, [B20]),
    case!(clients_whose_clocks_are_hours_apart_agree, [B6]),
];

async fn a_live_holder_keeps_it(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    let end = Instant::now() + s.ttl() * 4;
    while Instant::now() < end {
        still_held(&guard);
        s.is_kept(&guard, &name).await;
        tokio::time::sleep(s.ttl() / 8).await;
    }
    released(guard).await;
    // Nothing renews what was released.
    assert!(s.is_free(&name).await);
    tokio::time::sleep(s.ttl()).await;
    assert!(s.is_free(&name).await);
}

/// Returns a ttl that is long enough to tell the next renewal from the one after it.
fn ttl_of_renewals(s: &Setting) -> Duration {
    s.ttl().max(ms(1600))
}

/// After which time it is renewed does not depend on the server: lock-core's `it_is_renewed_at_a_third_of_what_is_left`.
async fn it_is_renewed_every_third_of_its_ttl(s: Setting) {
    let (telling, mut told) = mpsc::unbounded_channel();
    let options = Options::default().observer(move |event| {
        if let Event::Renewed { .. } = event {
            telling.send(()).expect("the case waits");
        }
    });
    let (client, ttl) = (s.client_with(options).await, ttl_of_renewals(&s));
    let lock = client.lock(s.name().as_str()).ttl(ttl).build().expect("fine terms");
    let guard = lock.acquire().answered().await;
    for _ in 0..2 {
        within("its next renewal", bounds::EVENTUALLY, told.recv()).await.expect("the client lives");
        still_held(&guard);
    }
    released(guard).await;
}

async fn a_fixed_lease_ends_at_its_time(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).fixed_lease().build().expect("fine terms");
    let asked = Instant::now();
    let guard = lock.acquire().answered().await;
    assert_eq!(lost_at_its_end(&guard).await, LossReason::Expired);
    assert!(asked.elapsed() >= s.ttl() * 3 / 4, "it lasted {:?} of {:?}", asked.elapsed(), s.ttl());
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    assert_eq!(guard.release().await, Ending::Expired);
}

async fn a_fixed_lease_is_renewed_by_hand(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).fixed_lease().build().expect("fine terms");
    let guard = lock.acquire().answered().await;
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

/// How exactly it ends does not depend on the server: lock-core's `max_hold_ends_it_to_the_millisecond`.
async fn max_hold_ends_it_whatever_is_renewed(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let most = s.ttl() * 2;
    let lock = s.lock(&client, &name).max_hold(most).build().expect("fine terms");
    let asked = Instant::now();
    let guard = lock.acquire().answered().await;
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
    let lock = s.lock(&client, &name).min_hold(least).build().expect("fine terms");
    let started = Instant::now();
    let guard = lock.acquire().answered().await;
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
        too_late(ttl * 2 / 3, &format!("over within {after:?}, because it could not be renewed"));
    }
    panic!("over within {after:?}");
}

async fn validity_counts_from_before_the_attempt(s: Setting) {
    for _ in 0..2 {
        let (name, client) = (s.name(), s.client().await);
        let lock = s.lock(&client, &name).fixed_lease().build().expect("fine terms");
        let guard = lock.acquire().answered().await;
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

async fn a_forgotten_lock_is_lost_at_the_next_renewal(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client, ttl) = (s.name(), s.client().await, ttl_of_renewals(&s));
    let lock = client.lock(name.as_str()).ttl(ttl).build().expect("fine terms");
    let guard = lock.acquire().answered().await;
    admin.forget(&name).await;
    let cause = within("the loss", bounds::next_renewal(ttl), guard.lost()).await;
    assert!(matches!(cause, LossReason::Gone | LossReason::Taken | LossReason::Session), "{cause}");
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    assert_eq!(guard.lost().await, cause, "it never changes");
    assert_eq!(guard.release().await, Ending::Expired);
}

async fn protect_drops_the_work_when_the_lock_goes(s: Setting, admin: Arc<dyn Forget>) {
    let name = s.name();
    let guard = s.hold(&name).await;
    assert_eq!(guard.protect(async { 7 }).await.expect("it is held"), 7);
    let endless = Endless::default();
    let work = endless.work();
    admin.forget(&name).await;
    let lost = within("the loss", bounds::EVENTUALLY, guard.protect(work)).await;
    let lost = lost.expect_err("the lock is gone");
    assert_eq!((lost.kind(), endless.drops()), (ErrorKind::Lost, 1));
    assert!(guard.protect(async { panic!("not polled") }).await.is_err());
}

async fn run_acquires_protects_and_releases(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).ttl(s.long()).build().expect("fine terms");
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
    let (there, failed) = (
        lock.clone(),
        tokio::spawn(async move { lock.run(async |_| panic_on_purpose("in the work")).await.map(|()| 0) }),
    );
    assert!(failed.await.is_err());
    let free = || async { there.try_run(async |_| ()).answered().await.is_some() };
    until("a panic releases", bounds::before_the_end(s.long()), free).await;
}

async fn a_dead_server_means_lost_at_the_deadline(s: Setting, servers: Arc<dyn OwnServers>) {
    let name = s.name();
    let mut server = servers.start().await;
    let client = server.open(Options::default()).answered().await;
    let guard = s.hold_by(&client, &name).await;
    tokio::time::sleep(s.ttl()).await;
    renewed(&guard, s.ttl()).await;
    let (asked, left) = (Instant::now(), guard.valid_for());
    server.pause();
    let cause = lost_in_time(&guard, &s.info, s.ttl()).await;
    assert_eq!(cause, LossReason::Expired);
    assert!(asked.elapsed() >= left, "given up after {:?} of {left:?}", asked.elapsed());
    assert!(!guard.is_held());
    let released = within("a release with a dead server", bounds::EVENTUALLY, guard.release());
    assert_eq!(released.await, Ending::Expired);
    server.resume();
    let other = server.open(Options::default()).answered().await;
    let lock = s.lock(&other, &name).build().expect("fine terms");
    drop(within("it is free again", s.ttl() * 4 + ms(2000), lock.acquire()).answered().await);
}

/// The release continues in the background, whether its caller waits, has given up, or has only dropped the guard. The
/// lease would have kept the name for much longer.
async fn a_release_that_a_dead_server_did_not_answer_goes_on(s: Setting, servers: Arc<dyn OwnServers>) {
    let mut server = servers.start().await;
    let (failing, mut failed) = watch::channel(HashSet::new());
    let options = Options::default().patience(ms(200)).observer(move |event| {
        if let Event::Trouble { name, operation: "release", .. } = event {
            failing.send_modify(|failed| _ = failed.insert((*name).clone()));
        }
    });
    let client = server.open(options).answered().await;
    let ttl = Duration::from_secs(25).min(client.info().max_ttl);
    let locks = [s.name(), s.name(), s.name()]
        .map(|name| client.lock(name.as_str()).ttl(ttl).build().expect("fine terms"));
    let mut guards = Vec::new();
    for lock in &locks {
        guards.push(lock.acquire().answered().await);
    }
    let other = server.open(Options::default()).answered().await;
    let [waits, gives_up, drops] = <[_; 3]>::try_from(guards).expect("three");
    server.pause();
    let (waits, gives_up) = (tokio::spawn(waits.release()), tokio::spawn(gives_up.release()));
    drop(drops);
    let all_failed = failed.wait_for(|failed| failed.len() == locks.len());
    let met = within("each release has met the dead server", bounds::EVENTUALLY, all_failed).await;
    drop(met.expect("the client lives"));
    assert!(!waits.is_finished(), "the lease has not ended");
    gives_up.abort();
    server.resume();
    let resumed = Instant::now();
    for lock in &locks {
        let again = s.lock(&other, lock.name()).build().expect("fine terms");
        // Long before the lease would end.
        let limit = (ttl / 4).saturating_sub(resumed.elapsed());
        released(within("it is free again", limit, again.acquire()).answered().await).await;
    }
    // The server may not be able to tell which of the releases was in time.
    waits.await.returned();
}

async fn at_risk_comes_before_lost(s: Setting, servers: Arc<dyn OwnServers>) {
    let name = s.name();
    let mut server = servers.start().await;
    let client = server.open(Options::default()).answered().await;
    let guard = s.hold_by(&client, &name).await;
    // Less than half of the ttl, but as much as possible.
    let before = s.ttl() * 49 / 100;
    let risk = tokio::time::timeout(s.ttl() * 2, guard.at_risk(before)).await;
    assert_in_time!(risk.is_err(), late by s.ttl() / 3, "a lock that is renewed is at risk");
    server.pause();
    let cause = within("the risk", bounds::EVENTUALLY, guard.at_risk(before)).await;
    still_held(&guard);
    assert_eq!(cause, LossReason::Expired);
    assert!(guard.valid_for() <= before + ms(5), "{:?}", guard.valid_for());
    assert_eq!(guard.lost().await, cause);
    server.resume();
}

async fn a_stalled_executor_is_told_at_its_next_step(s: Setting) {
    let name = s.name();
    let (told, outcome) = std::sync::mpsc::channel();
    let setting = s.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let guard = setting.hold(&name).await;
            let mut polls = 0;
            let work = std::future::poll_fn(|context| {
                polls += 1;
                // The whole executor stands still for longer than the lease.
                std::thread::sleep(setting.ttl() * 5 / 4);
                context.waker().wake_by_ref();
                std::task::Poll::<()>::Pending
            });
            let lost = guard.protect(work).await.expect_err("the lease is over");
            told.send((lost.kind(), guard.is_held(), polls)).expect("the case waits");
        });
    });
    let outcome = tokio::task::spawn_blocking(move || outcome.recv_timeout(Duration::from_secs(20)));
    let outcome = outcome.await.returned().expect("it came back");
    assert_eq!(outcome, (ErrorKind::Lost, false, 1), "the work is not polled again");
    joined(thread);
}

/// The loss is told to an observer of the client. The work itself has ended before anything else could run.
async fn a_loss_that_a_stalled_executor_brings_is_told_once(s: Setting) {
    let (name, setting) = (s.name(), s.clone());
    let (telling, told) = std::sync::mpsc::channel();
    let options = Options::default().observer(move |event| {
        if let Event::Lost { cause, .. } = event {
            telling.send(*cause).expect("the case waits");
        }
    });
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let client = setting.client_with(options).await;
            let lock = setting.lock(&client, &name).build().expect("fine terms");
            let outcome = lock.run(async |_| std::thread::sleep(setting.ttl() * 5 / 4)).await;
            assert_eq!(outcome.expect_err("the lease is over").kind(), ErrorKind::Lost);
            assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0, "it was not given back");
        });
    });
    tokio::task::spawn_blocking(move || joined(thread)).await.returned();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [LossReason::Expired]);
}

async fn an_observer_that_panics_costs_no_lock(s: Setting) {
    let options = Options::default().observer(|_| panic_on_purpose("in the observer"));
    let (name, client) = (s.name(), s.client_with(options).await);
    let lock = s.lock(&client, &name).build().expect("fine terms");
    let guard = lock.acquire().answered().await;
    // For longer than a lease lasts that is not renewed.
    tokio::time::sleep(s.ttl() * 4 / 3).await;
    still_held(&guard);
    s.is_kept(&guard, &name).await;
    released(guard).await;
    assert!(s.is_free(&name).await);
}

async fn a_dedicated_client_outlives_a_stalled_executor(s: Setting) {
    let name = s.name();
    let setting = s.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let client = setting.client_with(Options::default().dedicated()).await;
            let guard = setting.hold_by(&client, &name).await;
            std::thread::sleep(setting.ttl() * 3 / 2);
            still_held(&guard);
            released(guard).await;
        });
    });
    tokio::task::spawn_blocking(move || joined(thread)).await.returned();
}

/// A suspended machine: its timers stand still, the server's clock doesn't. How soon the suspend is noticed does not depend
/// on the server: lock-core's `a_suspend_is_noticed_within_a_tenth_of_the_ttl`.
async fn a_suspend_is_noticed(s: Setting) {
    let name = s.name();
    let machine = Suspendable::default();
    let client = s.client_with(Options::default().clock(machine.clock())).await;
    let ttl = s.long();
    let lock = client.lock(name.as_str()).ttl(ttl).fixed_lease().build().expect("fine terms");
    let guard = lock.acquire().answered().await;
    let lost = guard.lost();
    tokio::pin!(lost);
    // Waits until the client has nothing else to wake up for.
    assert!(tokio::time::timeout(ms(400), &mut lost).await.is_err());
    machine.sleeps(ttl);
    assert!(!guard.is_held(), "it is lost at the next call");
    // The timers would tell it at the end of the lease.
    let limit = bounds::before_the_end(ttl);
    assert_eq!(within("it is told", limit, lost).await, LossReason::Expired);
}

/// Nothing that a client's clock shows may reach the server, only durations that are measured with it.
async fn clients_whose_clocks_are_hours_apart_agree(s: Setting) {
    let mut clients = Vec::new();
    for hours in [0, 1, 1000] {
        let machine = Suspendable::default();
        machine.sleeps(Duration::from_secs(hours * 3600));
        clients.push(s.client_with(Options::default().clock(machine.clock())).await);
    }
    let mut pairs = JoinSet::new();
    for (holder, waiter) in [(0, 1), (1, 0), (2, 0), (0, 2), (1, 2), (2, 1)] {
        pairs.spawn(agree(s.clone(), clients[holder].clone(), clients[waiter].clone()));
    }
    pairs.join_all().await;
}

/// Checks that the waiter gets the lock when the holder's lease has ended, and not before.
async fn agree(s: Setting, holder: Client, waiter: Client) {
    let name = s.name();
    let lock = s.lock(&holder, &name).fixed_lease().build().expect("fine terms");
    let asked = Instant::now();
    let guard = lock.acquire().answered().await;
    let waiting = s.lock(&waiter, &name).build().expect("fine terms");
    if waiting.try_acquire().answered().await.is_some() {
        still_held(&guard);
        panic!("two at a time");
    }
    let next = within("the lease ends", s.ttl() * 3 + ms(1000), waiting.acquire()).answered().await;
    assert!(!guard.is_held() && next.token() > guard.token());
    assert!(asked.elapsed() > s.ttl() / 2, "it ended after {:?} of {:?}", asked.elapsed(), s.ttl());
    released(next).await;
}
