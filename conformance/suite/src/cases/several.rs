//! Several locks at once: all or none, in one order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lock_core::driver::Lease;
use lock_core::{Client, Ending, ErrorKind, LossReason, MultiGuard, MultiLock, Name, Result};
use tokio::task::{JoinHandle, JoinSet};

use super::work::Endless;
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Forget, Identity, Promise};
use crate::setting::{Contend, Setting, granted_within, holder_of, ms};
use crate::timing::{Answered, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(all_are_held_and_all_are_released, "several", [B25]),
    case!(all_or_none, "several", [B25]),
    case!(one_lock_through_two_clients_is_refused, "several-none-twice", [B25]; if says_which_it_is),
    case!(a_wait_for_all_ends_and_leaves_none, "several-all-or-none", [B25]),
    case!(a_caller_that_gives_up_leaves_none, "several-all-or-none", [B25, B2]),
    case!(opposite_orders_do_not_block_each_other, "several-order", [B25]; load Heavy),
    case!(the_loss_of_one_is_the_loss_of_all, "check, several-one-guard", [B25, B11]),
    case!(run_drops_its_work_when_one_lock_goes, "several-one-guard", [B25, B11, B20]),
    case!(a_lock_lost_during_the_wait_is_retaken, "several-lost-meanwhile", [B25, B11]),
];

fn multi<'a>(ttl: Duration, client: &Client, names: impl IntoIterator<Item = &'a Name>) -> MultiLock {
    let locks = names.into_iter().map(|name| client.lock(name.as_str()).ttl(ttl).built());
    MultiLock::new(locks).expect("different locks")
}

/// Returns two names, in the order in which every client acquires them.
fn in_order(s: &Setting) -> [Name; 2] {
    let mut names = [s.name(), s.name()];
    names.sort();
    names
}

/// Starts a task that waits for all of these.
fn waiting(s: &Setting, client: &Client, names: [&Name; 2]) -> JoinHandle<Result<MultiGuard>> {
    let several = multi(s.ttl(), client, names);
    tokio::spawn(async move { several.acquire().await })
}

async fn all_are_free<'a>(s: &Setting, names: impl IntoIterator<Item = &'a Name>) {
    for name in names {
        until("free", Duration::from_secs(5), || s.is_free(name)).await;
    }
}

async fn all_are_held_and_all_are_released(s: Setting) {
    let names = [s.name(), s.name(), s.name()];
    let clients = [s.client().await, s.client().await];
    let locks = [(0, 0), (1, 1), (0, 2)]
        .map(|(client, name)| s.lock(&clients[client], &names[name]).ttl(s.long()).built());
    let several = MultiLock::new(locks).expect("different locks");
    let guard = several.acquire().await.expect("the lock is free");
    assert_eq!(guard.guards().len(), 3);
    let least = guard.guards().iter().map(lock_core::Guard::valid_for).min().expect("three");
    guard.check().expect("the lock is held");
    assert!(guard.is_held() && guard.valid_for() <= least);
    for name in &names {
        assert!(!s.is_free(name).await);
    }
    let (longer, asked) = ((s.long() * 3).min(s.info.max_ttl), Instant::now());
    let certain = guard.renew(longer).answered().await;
    // However long the answer took: this is more than was asked for at first.
    let is_longer = certain + asked.elapsed() > s.long();
    assert!(is_longer || s.info.lease == Lease::Session, "{certain:?}");
    assert_eq!(guard.release().await, Ending::Released);
    all_are_free(&s, &names).await;
    let all = several.run(async |guard| guard.is_held()).await.expect("the lock is free");
    assert!(all);
    all_are_free(&s, &names).await;
}

async fn all_or_none(s: Setting) {
    let (names, client) = ([s.name(), s.name(), s.name()], s.client().await);
    let several = multi(s.long(), &client, &names);
    for taken in &names {
        let guard = s.hold_long(taken).await;
        assert!(several.try_acquire().answered().await.is_none());
        for other in names.iter().filter(|name| *name != taken) {
            all_are_free(&s, [other]).await;
        }
        released(guard).await;
    }
    assert!(several.try_acquire().answered().await.is_some());
    let twice = [&names[0], &names[1], &names[0]].map(|name| s.lock(&client, name).built());
    assert_eq!(MultiLock::new(twice).expect_err("it would wait for itself").kind(), ErrorKind::Invalid);
    assert_eq!(MultiLock::new([]).expect_err("nothing to hold").kind(), ErrorKind::Invalid);
}

/// A server of which this was promised is asked in any case, so that one that no longer does is not silently left out.
fn says_which_it_is(s: &Setting) -> bool {
    let is_promised = |promise: &Promise| promise.identity == Identity::Told;
    s.info.identity.is_some() || s.facts.promised.iter().any(is_promised)
}

async fn one_lock_through_two_clients_is_refused(s: Setting) {
    let (names, clients) = ([s.name(), s.name()], [s.client().await, s.client().await]);
    for client in &clients {
        // A client of several servers may be open before it has reached all of them.
        let knows = || async { client.info().identity.is_some() };
        until("the client knows which server it is of", ms(5000), knows).await;
    }
    let of_both = |names: [&Name; 2]| {
        let [first, second] = [0, 1].map(|at| s.lock(&clients[at], names[at]).built());
        MultiLock::new([first, second])
    };
    let error = of_both([&names[0], &names[0]]).expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let both = of_both([&names[0], &names[1]]).expect("two locks");
    assert_eq!(both.acquire().await.expect("the lock is free").release().await, Ending::Released);
    all_are_free(&s, &names).await;
}

async fn a_wait_for_all_ends_and_leaves_none(s: Setting) {
    let (names, client) = ([s.name(), s.name(), s.name()], s.client().await);
    let mut sorted = names.to_vec();
    sorted.sort();
    let last = s.hold_long(&sorted[2]).await;
    let several = multi(s.long(), &client, &names).wait(ms(300));
    let began = Instant::now();
    let outcome = within("its wait is over", bounds::EVENTUALLY, several.acquire()).await;
    let error = outcome.expect_err("the last one is taken");
    assert_eq!((error.kind(), error.name()), (ErrorKind::Timeout, Some(&sorted[2])), "{error}");
    let took = began.elapsed();
    assert!(took >= ms(290), "{took:?}");
    all_are_free(&s, &sorted[..2]).await;
    still_held(&last);
}

async fn a_caller_that_gives_up_leaves_none(s: Setting) {
    let ([first, last], client) = (in_order(&s), s.client().await);
    let holder_of_last = s.hold_long(&last).await;
    let waiting = waiting(&s, &client, [&last, &first]);
    let first_is_taken = || async { !s.is_free(&first).await };
    until("it has the first and waits for the last", Duration::from_secs(5), first_is_taken).await;
    waiting.abort();
    all_are_free(&s, [&first]).await;
    drop(holder_of_last);
    all_are_free(&s, [&first, &last]).await;
}

/// Each task wants three of five locks and names them in an order of its own. Unless all tasks acquire them in one
/// order, they would soon wait for each other.
async fn opposite_orders_do_not_block_each_other(s: Setting) {
    const TURNS: usize = 15;
    let names: Arc<[Name]> = (0..5).map(|_| s.name()).collect();
    let inside: Arc<[AtomicU32]> = (0..5).map(|_| AtomicU32::new(0)).collect();
    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let (names, inside, client, s) = (names.clone(), inside.clone(), s.client().await, s.clone());
        tasks.spawn(async move {
            for turn in 0..TURNS {
                let step = 1 + (task + turn) % 4;
                let mine = [0, 1, 2].map(|n| (task + turn + n * step) % 5);
                let several = multi(s.long(), &client, mine.map(|n| &names[n]));
                let guard = several.acquire().await.expect("it waits without end");
                for n in mine {
                    assert_eq!(inside[n].fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                }
                tokio::task::yield_now().await;
                guard.check().expect("the lock is held");
                for n in mine {
                    inside[n].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await;
            }
        });
    }
    // Sooner than the limit of a hanging case, so that this lateness is what is reported and run again.
    within("each task has its locks or an error", Duration::from_secs(40), tasks.join_all()).await;
}

async fn the_loss_of_one_is_the_loss_of_all(s: Setting, admin: Arc<dyn Forget>) {
    let (names, client) = ([s.name(), s.name(), s.name()], s.client().await);
    let guard = multi(s.ttl(), &client, &names).acquire().await.expect("the lock is free");
    admin.forget(&names[1]).await;
    let (name, cause) = within("told", bounds::EVENTUALLY, guard.lost()).await;
    // Where locks belong to a session, the session may have ended with all of them.
    let gone = name == &names[1] && cause == LossReason::Gone;
    let all_gone = s.info.lease == Lease::Session && cause == LossReason::Session;
    assert!(gone || all_gone, "{name}: {cause}");
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    let error = guard.check().expect_err("one is lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.name().is_some_and(|name| names.contains(name)), "{error}");
    let work = guard.protect(std::future::pending::<()>());
    assert_eq!(work.await.expect_err("one is lost").kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await, Ending::Expired);
    all_are_free(&s, &names).await;
}

async fn run_drops_its_work_when_one_lock_goes(s: Setting, admin: Arc<dyn Forget>) {
    let (names, client, endless) = ([s.name(), s.name()], s.client().await, Endless::default());
    let (several, work) = (multi(s.ttl(), &client, &names), endless.work());
    let running = tokio::spawn(async move { several.run(async move |_| work.await).await });
    endless.is_lost_with(&names[1], &*admin, running).await;
    all_are_free(&s, &names).await;
}

async fn a_lock_lost_during_the_wait_is_retaken(s: Setting, admin: Arc<dyn Forget>) {
    let ([first, last], client) = (in_order(&s), s.client().await);
    let holder_of_last = s.hold_long(&last).await;
    let waiting = waiting(&s, &client, [&last, &first]);
    let first_lock = s.lock(&client, &first).built();
    let taken = || async { holder_of(&first_lock).await.is_some() };
    until("it has the first", Duration::from_secs(5), taken).await;
    let token = async || holder_of(&first_lock).await.and_then(|holder| holder.token);
    let before = token().await;
    admin.forget(&first).await;
    let again = || async { token().await.is_some_and(|now| Some(now) != before) };
    until("it has the first again", bounds::EVENTUALLY, again).await;
    drop(holder_of_last);
    let guard = granted_within("both", Duration::from_secs(5), waiting).await;
    guard.check().expect("the lock is held");
}
