//! An explicit owner enters again what it holds; no other owner does.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::Lease;
use lock_core::{Client, Ending, ErrorKind, Lock, LossReason, Name, Reentrant};
use tokio::task::JoinSet;

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Count, Forget};
use crate::setting::{Contend, Setting, ms};
use crate::timing::{Answered, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(an_owner_enters_again_and_leaves_as_often, "entries", [B26]),
    case!(entering_again_sends_no_request, "entering-is-free", [B26]; load Heavy),
    case!(another_owner_waits, "reentrant-owner", [B26]),
    case!(a_partial_release_renews, "entries", [B26]; if |s| s.info.lease == Lease::Lock),
    case!(tasks_of_one_owner_enter_together, "entering-together", [B26]),
    case!(a_lost_lock_is_not_entered_again, "one-loss-of-entries", [B26, B10]),
    case!(an_owner_that_leaves_at_any_time_leaves_nothing, "entries-leave-nothing", [B26, B1]; load Heavy),
];

fn lock(s: &Setting, client: &Client, name: &Name, owner: &Reentrant) -> Lock {
    s.lock(client, name).ttl(s.long()).reentrant(owner).built()
}

async fn an_owner_enters_again_and_leaves_as_often(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let lock = lock(&s, &client, &name, &owner);
    let first = lock.acquire().await.expect("the lock is free");
    let second = lock.acquire().await.expect("the owner holds it");
    let third = lock.try_acquire().answered().await.expect("the owner holds it");
    assert_eq!((first.token(), first.owner()), (third.token(), third.owner()));
    released(first).await;
    drop(third);
    still_held(&second);
    s.is_kept(&second, &name).await;
    s.freed(second).await;
    // The next acquisition is a new one.
    let again = lock.acquire().await.expect("the lock is free");
    still_held(&again);
}

async fn entering_again_sends_no_request(s: Setting, admin: Arc<dyn Count>) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let lock = client.lock(name.as_str()).ttl(s.ttl() * 100).reentrant(&owner).built();
    let guard = lock.acquire().await.expect("the lock is free");
    // The guards are kept, because one that is dropped renews the lock.
    let (mut guards, mut asked) = (Vec::new(), Vec::new());
    // Other requests of the client, for its session or to listen for a revoke, come in few of the rounds.
    for _ in 0..9 {
        // Reading the counter may itself be a request.
        let counted = admin.counters().await.requests;
        let before = admin.counters().await.requests;
        let mut entries = JoinSet::new();
        for _ in 0..100 {
            let lock = lock.clone();
            entries.spawn(async move { lock.acquire().await.expect("the owner holds it") });
        }
        guards.extend(entries.join_all().await);
        asked.push((admin.counters().await.requests - before).abs_diff(before - counted));
    }
    assert!(guards.iter().all(|other| other.token() == guard.token()));
    asked.sort_unstable();
    assert_eq!(asked[asked.len() / 2], 0, "requests in each of the rounds: {asked:?}");
}

async fn another_owner_waits(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let guard = lock(&s, &client, &name, &owner).acquire().await.expect("the lock is free");
    let strangers = [
        lock(&s, &client, &name, &Reentrant::new()),
        s.lock(&client, &name).built(),
        // The same owner on another client. To the server that is another process.
        lock(&s, &s.client().await, &name, &owner),
    ];
    for stranger in &strangers {
        assert!(stranger.try_acquire().answered().await.is_none());
    }
    // Being the owner of one name says nothing about another name.
    let other = lock(&s, &client, &s.name(), &owner).acquire().await.expect("the lock is free");
    assert_ne!(other.owner(), guard.owner());
}

async fn a_partial_release_renews(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let ttl = s.ttl() * 20;
    let lock = client.lock(name.as_str()).ttl(ttl).reentrant(&owner).built();
    let outer = lock.acquire().await.expect("the lock is free");
    for give_back in [true, false] {
        let inner = lock.acquire().await.expect("the owner holds it");
        tokio::time::sleep(ttl / 20).await;
        let before = outer.valid_for();
        match give_back {
            true => assert_eq!(inner.release().await, Ending::Released),
            false => drop(inner),
        }
        let renewed = || async { outer.valid_for() > before + ttl / 40 };
        // Before the lock is renewed in any case.
        until("the others have a whole lease before them", bounds::before_the_end(ttl / 3), renewed).await;
    }
    s.is_kept(&outer, &name).await;
    // A fixed lease ends at its time, however often it is entered and left.
    let (name, ttl) = (s.name(), s.ttl() * 10);
    let fixed = client.lock(name.as_str()).ttl(ttl).fixed_lease().reentrant(&owner);
    let fixed = fixed.built();
    let outer = fixed.acquire().await.expect("the lock is free");
    tokio::time::sleep(ttl / 20).await;
    let inner = fixed.acquire().await.expect("the owner holds it");
    released(inner).await;
    assert!(outer.valid_for() < ttl * 19 / 20, "{:?}", outer.valid_for());
}

async fn tasks_of_one_owner_enter_together(s: Setting) {
    const TASKS: usize = 16;
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let stranger = s.hold_long(&name).await;
    let mut waiting = JoinSet::new();
    for _ in 0..TASKS {
        let lock = lock(&s, &client, &name, &owner);
        waiting.spawn(async move { lock.acquire().await.expect("it waits without end") });
    }
    tokio::time::sleep(ms(30)).await;
    assert!(waiting.try_join_next().is_none(), "another client holds it");
    drop(stranger);
    // Each task waits for the one that acquired it, not for its release.
    let guards = within("all have entered", Duration::from_secs(10), waiting.join_all()).await;
    assert_eq!(guards.len(), TASKS);
    for guard in &guards {
        still_held(guard);
        assert_eq!(guard.token(), guards[0].token());
    }
    drop(guards);
    until("free after the last of them", Duration::from_secs(5), || s.is_free(&name)).await;
}

async fn a_lost_lock_is_not_entered_again(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    // A short ttl: the loss is told at the next renewal.
    let lock = s.lock(&client, &name).reentrant(&owner).built();
    let outer = lock.acquire().await.expect("the lock is free");
    let inner = lock.acquire().await.expect("the owner holds it");
    admin.forget(&name).await;
    // All guards have the same loss.
    let cause = outer.lost().await;
    assert!(matches!(cause, LossReason::Gone | LossReason::Session), "{cause}");
    assert_eq!(inner.lost().await, cause);
    assert_eq!(lock.acquire().await.expect_err("the lock is lost").kind(), ErrorKind::Lost);
    assert_eq!(lock.try_acquire().await.expect_err("the lock is lost").kind(), ErrorKind::Lost);
    assert_eq!(inner.release().await, Ending::Expired);
    assert_eq!(outer.release().await, Ending::Expired);
    let again = lock.acquire().await.expect("no other owner holds it");
    still_held(&again);
}

/// Many tasks of one owner drop, release and cancel their entries at random moments.
async fn an_owner_that_leaves_at_any_time_leaves_nothing(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let lock = lock(&s, &client, &name, &owner);
        tasks.spawn(async move {
            for turn in 0..40 {
                let patience = Duration::from_micros((task * 37 + turn * 131) % 2500);
                let Ok(entered) = tokio::time::timeout(patience, lock.acquire()).await else { continue };
                let guard = entered.expect("the owner holds it, or it is free");
                still_held(&guard);
                match turn % 3 {
                    0 => released(guard).await,
                    1 => drop(guard),
                    _ => drop(tokio::time::timeout(patience / 2, guard.release()).await),
                }
            }
        });
    }
    tasks.join_all().await;
    until("free when all have left", Duration::from_secs(5), || s.is_free(&name)).await;
    assert_eq!(client.shutdown(Duration::from_secs(5)).await, 0);
}
