//! Inspecting the holder of a lock, and revoking the lock.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use lock_core::driver::{Lease, Renewal, Revoked, Wakes, When};
use lock_core::{Ending, ErrorKind, Guard, Lock, LossReason, Name, OwnerBytes};

use crate::bounds;
use crate::case::{Case, case};
use crate::setting::{Contend, Setting, granted_within, holder_of, ms, waits};
use crate::timing::{Answered, assert_in_time, assert_lost_for, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(inspect_shows_the_holder, "inspect"),
    case!(a_revoked_lock_is_free_at_its_holders_deadline, "loss-in-time, revoke-at-deadline", [B9, B10]),
    case!(a_lock_broken_now_is_free_at_once, "revoke-now", [B9]),
    case!(a_revoked_holder_is_told_at_once, "revoke-told", [B10]),
    case!(a_revoked_holder_that_has_stopped_frees_the_name, "revoke-frees", [B9, B10]),
    case!(a_holder_unaware_of_a_revoke_frees_the_name, "revoke-frees", [B9]),
    case!(a_lock_revoked_twice_returns_to_its_first_holder, "revoke-frees", [B9]),
    case!(only_the_holder_that_was_seen_is_revoked, "revoke", [B9]),
    case!(a_lease_that_has_ended_is_not_revoked, "revoke", [B10]; if |s| s.info.lease == Lease::Lock),
    case!(check_finds_the_server_in_order, "check-server"),
];

async fn inspect_shows_the_holder(s: Setting) {
    let (name, a, b) = (s.name(), s.client().await, s.client().await);
    let lock = s.lock(&b, &name).built();
    assert!(holder_of(&lock).await.is_none());
    let asked = Instant::now();
    let guard = s.lock(&a, &name).ttl(s.ttl() * 10).label("worker pid 7").held().await;
    tokio::time::sleep(ms(20) + s.facts.age_too_short_by).await;
    let holder = holder_of(&lock).await.expect("it is held");
    assert_eq!(holder.label.as_deref(), Some("worker pid 7"));
    assert_eq!(holder.token, Some(guard.token()), "{holder:?}");
    // Servers round to the millisecond.
    let longest = asked.elapsed() + ms(2);
    // Only the server knows when a session ends. When a lock's own lease ends is stored with the lock.
    let unsaid = s.info.lease == Lease::Session;
    let is_shown = |shown: Option<Duration>, within| {
        shown.map_or(unsaid, |shown| RangeInclusive::contains(&within, &shown))
    };
    assert!(is_shown(holder.since, ms(15)..=longest), "{holder:?}, {longest:?}");
    assert!(is_shown(holder.expires_in, ms(1)..=s.ttl() * 10), "{holder:?}");
    released(guard).await;
    assert!(holder_of(&lock).await.is_none());
}

async fn a_revoked_lock_is_free_at_its_holders_deadline(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    let lock = s.lock_elsewhere(&name).await.built();
    let holder = s.seen(&lock, &guard).await;
    match lock.revoke(&holder.owner, When::HoldersDeadline).answered().await {
        Revoked::FreeIn(left) => assert!(left <= s.ttl() * 2, "{left:?}"),
        other => {
            still_held(&guard);
            panic!("{other:?}");
        }
    }
    // Whenever the lock is free from now on, its holder has been told.
    let taken = within("it becomes free", s.ttl() * 4 + ms(1000), lock.acquire()).answered().await;
    assert!(!guard.is_held(), "another client holds it and the holder was not told");
    assert_lost_for(within("told", bounds::EVENTUALLY, guard.lost()).await, LossReason::Revoked);
    assert_eq!(guard.release().await, Ending::Expired);
    still_held(&taken);
}

async fn a_lock_broken_now_is_free_at_once(s: Setting) {
    let name = s.name();
    // Its end is too far away to free the lock for the waiter, and its next renewal is near.
    let guard = s.lock_elsewhere(&name).await.ttl(s.ttl() * 6).held().await;
    let lock = operators(&s, &name).await;
    let waiter = waits(lock.clone());
    tokio::time::sleep(ms(50)).await;
    let holder = holder_of(&lock).await.expect("it is held");
    assert_eq!(lock.revoke(&holder.owner, When::Now).answered().await, Revoked::Free);
    let successor = granted_within("the waiter has it", ms(1000), waiter).await;
    assert!(successor.token() > guard.token(), "only the token is between them");
    within("the holder is told at its next renewal", bounds::EVENTUALLY, guard.lost()).await;
    assert_eq!(guard.release().await, Ending::Expired);
    still_held(&successor);
}

/// Returns the lock of a client that revokes it, and may hold it afterwards.
async fn operators(s: &Setting, name: &Name) -> Lock {
    s.lock_elsewhere(name).await.ttl(s.long()).built()
}

/// Revokes a lock at its holder's deadline, which is far away: nothing in these cases waits for it. Returns the
/// earliest moment of that deadline.
async fn revoke(s: &Setting, lock: &Lock, guard: &Guard) -> Instant {
    let holder = s.seen(lock, guard).await;
    let asked = Instant::now();
    match lock.revoke(&holder.owner, When::HoldersDeadline).answered().await {
        Revoked::FreeIn(left) => {
            assert_in_time!(left > ms(3000), "{left:?} are left");
            asked + left
        }
        other => panic!("{other:?}"),
    }
}

/// Fails the case if the holder's deadline can't have been the reason.
fn freed_early(deadline: Instant) -> ! {
    assert_in_time!(Instant::now() < deadline, "the revoked lease has ended meanwhile");
    panic!("granted while the previous holder's work went on");
}

/// Holds a lock. Where the server pushes, it is held for so long that no renewal can tell the holder anything;
/// otherwise its renewals come soon.
async fn held_for_long(s: &Setting, name: &Name) -> Guard {
    let ttl = match s.info.wakes {
        Wakes::Pushed => ms(60_000).min(s.info.max_ttl),
        _ => ms(6_000).max(s.info.min_ttl),
    };
    let guard = s.lock_elsewhere(name).await.ttl(ttl).held().await;
    // Held for a while, as any lock that an operator breaks: the operator has to see first that it is held.
    tokio::time::sleep(ms(600)).await;
    guard
}

/// Returns until when a holder is told of a revoke: at once, or at its next renewal. A holder whose renewal does not
/// tell it is told of another cause, when its lease ends.
fn told_within(s: &Setting) -> Duration {
    match s.info.wakes {
        Wakes::Pushed => ms(1000),
        _ => bounds::EVENTUALLY,
    }
}

async fn a_revoked_holder_is_told_at_once(s: Setting) {
    let name = s.name();
    let guard = held_for_long(&s, &name).await;
    let bystander = held_for_long(&s, &s.name()).await;
    let lock = operators(&s, &name).await;
    revoke(&s, &lock, &guard).await;
    assert_lost_for(within("it is told", told_within(&s), guard.lost()).await, LossReason::Revoked);
    assert_eq!(guard.check().expect_err("it is lost").kind(), ErrorKind::Lost);
    still_held(&bystander);
    drop(guard);
    let again = held_for_long(&s, &name).await;
    let holder = s.seen(&lock, &again).await;
    assert_eq!(lock.revoke(&holder.owner, When::Now).answered().await, Revoked::Free);
    within("the holder of a lock that is broken now is told, too", told_within(&s), again.lost()).await;
}

async fn a_revoked_holder_that_has_stopped_frees_the_name(s: Setting) {
    let name = s.name();
    let guard = held_for_long(&s, &name).await;
    let lock = operators(&s, &name).await;
    let mut waiter = waits(lock.clone());
    tokio::time::sleep(ms(50)).await;
    let deadline = revoke(&s, &lock, &guard).await;
    assert_lost_for(within("it is told", told_within(&s), guard.lost()).await, LossReason::Revoked);
    // Its work continues until its guard is released.
    let early = tokio::time::timeout(ms(500), &mut waiter).await;
    if early.is_ok() {
        freed_early(deadline);
    }
    assert_eq!(guard.release().await, Ending::Expired);
    still_held(&granted_within("the waiter has it", ms(1000), waiter).await);
}

async fn a_holder_unaware_of_a_revoke_frees_the_name(s: Setting) {
    let name = s.name();
    let guard = s.lock_elsewhere(&name).await.ttl(ms(60_000).min(s.info.max_ttl)).held().await;
    let lock = operators(&s, &name).await;
    revoke(&s, &lock, &guard).await;
    guard.release().await;
    still_held(&within("it is free", ms(1000), lock.acquire()).answered().await);
}

async fn a_lock_revoked_twice_returns_to_its_first_holder(s: Setting) {
    let name = s.name();
    let guard = held_for_long(&s, &name).await;
    let lock = operators(&s, &name).await;
    revoke(&s, &lock, &guard).await;
    let deadline = revoke(&s, &lock, &guard).await;
    assert_lost_for(within("it is told", told_within(&s), guard.lost()).await, LossReason::Revoked);
    if s.is_free(&name).await {
        freed_early(deadline);
    }
    drop(guard);
    still_held(&within("it is free", ms(1000), lock.acquire()).answered().await);
}

async fn only_the_holder_that_was_seen_is_revoked(s: Setting) {
    let name = s.name();
    let lock = s.lock_elsewhere(&name).await.built();
    let first = s.hold_long(&name).await;
    let seen = holder_of(&lock).await.expect("it is held").owner;
    released(first).await;
    revokes_nothing(&lock, &seen, "it is free").await;
    let second = s.hold(&name).await;
    for holder in [&seen, &OwnerBytes::new(b"never held".to_vec())] {
        revokes_nothing(&lock, holder, "it is another's").await;
    }
    let renewed = || async {
        still_held(&second);
        second.valid_for() > s.ttl() * 3 / 4
    };
    until("its holder continues to renew", bounds::EVENTUALLY, renewed).await;
    released(second).await;

    // The lock is revoked already. What replaces it on the server keeps the deadline.
    let third = held_for_long(&s, &name).await;
    let seen = s.seen(&lock, &third).await.owner;
    revoke(&s, &lock, &third).await;
    assert_eq!(lock.revoke(&seen, When::Now).answered().await, Revoked::NotHeld, "it is revoked");
    assert!(!s.is_free(&name).await, "its deadline is far, and its guard lives");
    drop(third);
}

async fn revokes_nothing(lock: &Lock, holder: &OwnerBytes, why: &str) {
    for when in [When::HoldersDeadline, When::Now] {
        assert_eq!(lock.revoke(holder, when).answered().await, Revoked::NotHeld, "{why}");
    }
}

/// A holder that was told of a revoke could not tell its lease's end from an operator's order.
async fn a_lease_that_has_ended_is_not_revoked(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).built();
    for when in [When::HoldersDeadline, When::Now] {
        let mut claim = s.holding_claim(&client, &name, s.ttl() * 2).await;
        let holder = holder_of(&lock).await.expect("it is held");
        let has_ended = || async { holder_of(&lock).await.is_none() };
        until("its lease has ended", s.ttl() * 4 + ms(1000), has_ended).await;
        assert_eq!(lock.revoke(&holder.owner, when).answered().await, Revoked::NotHeld, "{when:?}");
        assert!(matches!(claim.renew(s.ttl()).answered().await, Renewal::Lost(LossReason::Gone)), "{when:?}");
        claim.release().answered().await;
    }
}

async fn check_finds_the_server_in_order(s: Setting) {
    let findings = s.client().await.check().answered().await;
    assert!(!findings.is_empty());
    for finding in findings {
        assert_ne!(finding.level, lock_core::driver::Level::Bad, "{finding:?}");
        assert!(!finding.message.is_empty());
    }
}
