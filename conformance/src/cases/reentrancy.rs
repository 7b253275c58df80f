//! An explicit owner enters again what it holds; nobody else does.

use std::time::Duration;

use lock_core::driver::Lease;
use lock_core::{Cause, Client, Ending, ErrorKind, Lock, Name, Reentrant};
use tokio::task::JoinSet;

use super::case;
use crate::runner::Case;
use crate::setting::{Setting, ms};
use crate::timing::{Answered, Returned, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(an_owner_enters_again_and_leaves_as_often, [B26]),
    case!(entering_again_asks_nobody, [B26]; needs [Counters]; load Heavy),
    case!(whoever_is_another_owner_waits, [B26]),
    case!(a_partial_release_renews, [B26]; if |info| info.lease == Lease::Lock),
    case!(tasks_of_one_owner_enter_together, [B26]),
    case!(a_lost_lock_is_not_entered_again, [B26, B10]; needs [Forget]),
    case!(an_owner_that_leaves_at_any_time_leaves_nothing, [B26, B1]; load Heavy),
];

fn lock(s: &Setting, client: &Client, name: &Name, owner: &Reentrant) -> Lock {
    s.lock(client, name).ttl(s.long()).reentrant(owner).build().expect("fine terms")
}

async fn an_owner_enters_again_and_leaves_as_often(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let lock = lock(&s, &client, &name, &owner);
    let first = lock.acquire().await.expect("free");
    let second = lock.acquire().await.expect("its own");
    let third = lock.try_acquire().answered().await.expect("its own");
    assert_eq!((first.token(), first.owner()), (third.token(), third.owner()));
    released(first).await;
    drop(third);
    still_held(&second);
    s.is_kept(&second, &name).await;
    released(second).await;
    assert!(s.is_free(&name).await);
    // What comes now is another acquisition.
    let again = lock.acquire().await.expect("free");
    still_held(&again);
}

async fn entering_again_asks_nobody(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let lock = client.lock(name.as_str()).ttl(s.ttl() * 100).reentrant(&owner).build().expect("fine terms");
    let guard = lock.acquire().await.expect("free");
    // They stay: one that goes renews the lock.
    let (mut guards, mut asked) = (Vec::new(), Vec::new());
    // What the client asks beside them, for its session or to be told of a revoke, comes in few of the rounds.
    for _ in 0..9 {
        // To ask how much was asked may be to ask.
        let counted = s.harness.counters().await.requests;
        let before = s.harness.counters().await.requests;
        let mut entries = JoinSet::new();
        for _ in 0..100 {
            let lock = lock.clone();
            entries.spawn(async move { lock.acquire().await.expect("its own") });
        }
        guards.extend(entries.join_all().await);
        asked.push((s.harness.counters().await.requests - before).abs_diff(before - counted));
    }
    assert!(guards.iter().all(|other| other.token() == guard.token()));
    asked.sort_unstable();
    assert_eq!(asked[asked.len() / 2], 0, "requests in each of the rounds: {asked:?}");
}

async fn whoever_is_another_owner_waits(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let guard = lock(&s, &client, &name, &owner).acquire().await.expect("free");
    let strangers = [
        lock(&s, &client, &name, &Reentrant::new()),
        s.lock(&client, &name).build().expect("fine terms"),
        // The same owner on another client: that is another process to the server.
        lock(&s, &s.client().await, &name, &owner),
    ];
    for stranger in &strangers {
        assert!(stranger.try_acquire().answered().await.is_none());
    }
    // One name says nothing of another.
    let other = lock(&s, &client, &s.name(), &owner).acquire().await.expect("free");
    assert_ne!(other.owner(), guard.owner());
}

async fn a_partial_release_renews(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let ttl = s.ttl() * 20;
    let lock = client.lock(name.as_str()).ttl(ttl).reentrant(&owner).build().expect("fine terms");
    let outer = lock.acquire().await.expect("free");
    for give_back in [true, false] {
        let inner = lock.acquire().await.expect("its own");
        tokio::time::sleep(ttl / 10).await;
        let before = outer.valid_for();
        match give_back {
            true => assert_eq!(inner.release().await, Ending::Released),
            false => drop(inner),
        }
        let renewed = || async { outer.valid_for() > before + ttl / 20 };
        until("the others have a whole lease before them", ttl / 10, renewed).await;
    }
    s.is_kept(&outer, &name).await;
    // A fixed lease ends at its time, whoever comes and goes.
    let (name, ttl) = (s.name(), s.ttl() * 10);
    let fixed = client.lock(name.as_str()).ttl(ttl).fixed_lease().reentrant(&owner);
    let fixed = fixed.build().expect("fine terms");
    let outer = fixed.acquire().await.expect("free");
    tokio::time::sleep(ttl / 10).await;
    let inner = fixed.acquire().await.expect("its own");
    released(inner).await;
    assert!(outer.valid_for() < ttl * 9 / 10, "{:?}", outer.valid_for());
}

async fn tasks_of_one_owner_enter_together(s: Setting) {
    const TASKS: usize = 16;
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let stranger = s.hold_long(&name).await;
    let mut waiting = JoinSet::new();
    for _ in 0..TASKS {
        let lock = lock(&s, &client, &name, &owner);
        waiting.spawn(async move { lock.acquire().await.expect("waits without end") });
    }
    tokio::time::sleep(ms(30)).await;
    assert!(waiting.try_join_next().is_none(), "another client holds it");
    drop(stranger);
    // Each waits for the one that got it, not for its release.
    let guards = within("all have entered", Duration::from_secs(10), waiting.join_all()).await;
    assert_eq!(guards.len(), TASKS);
    for guard in &guards {
        still_held(guard);
        assert_eq!(guard.token(), guards[0].token());
    }
    drop(guards);
    let free = || async { s.is_free(&name).await };
    until("free after the last of them", Duration::from_secs(5), free).await;
}

async fn a_lost_lock_is_not_entered_again(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    // Short: the loss is told at the next renewal.
    let lock = s.lock(&client, &name).reentrant(&owner).build().expect("fine terms");
    let outer = lock.acquire().await.expect("free");
    let inner = lock.acquire().await.expect("its own");
    s.harness.forget(&name).await;
    // One loss for all.
    let cause = outer.lost().await;
    assert!(matches!(cause, Cause::Gone | Cause::Session), "{cause}");
    assert_eq!(inner.lost().await, cause);
    assert_eq!(lock.acquire().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(lock.try_acquire().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(inner.release().await, Ending::Expired);
    assert_eq!(outer.release().await, Ending::Expired);
    let again = lock.acquire().await.expect("nobody holds it");
    still_held(&again);
}

/// Entries that are dropped, released and given up at random moments, by many tasks of one owner.
async fn an_owner_that_leaves_at_any_time_leaves_nothing(s: Setting) {
    let (name, client, owner) = (s.name(), s.client().await, Reentrant::new());
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let lock = lock(&s, &client, &name, &owner);
        tasks.spawn(async move {
            for turn in 0..40 {
                let patience = Duration::from_micros((task * 37 + turn * 131) % 2500);
                let Ok(entered) = tokio::time::timeout(patience, lock.acquire()).await else { continue };
                let guard = entered.expect("its own, or free");
                still_held(&guard);
                match turn % 3 {
                    0 => assert_eq!(guard.release().await, Ending::Released),
                    1 => drop(guard),
                    _ => drop(tokio::time::timeout(patience / 2, guard.release()).await),
                }
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.returned();
    }
    let free = || async { s.is_free(&name).await };
    until("free when all have left", Duration::from_secs(5), free).await;
    assert_eq!(client.shutdown(Duration::from_secs(5)).await, 0);
}
