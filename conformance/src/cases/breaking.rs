//! Who holds it, and taking it away: inspect and revoke.

use lock_core::driver::{Revoked, When};
use lock_core::{Cause, Ending, OwnerBytes};

use super::case;
use crate::runner::Case;
use crate::setting::{Setting, ms};
use crate::timing::{until, within};

pub(crate) const CASES: &[Case] = &[
    case!(inspect_shows_the_holder, []),
    case!(a_revoked_lock_is_free_at_its_holders_deadline, [B9, B10]),
    case!(a_lock_broken_now_is_free_at_once, [B9]),
    case!(only_the_holder_that_was_seen_is_revoked, [B9]),
    case!(check_finds_the_server_in_order, []),
];

async fn inspect_shows_the_holder(s: Setting) {
    let (name, a, b) = (s.name(), s.client().await, s.client().await);
    let lock = s.lock(&b, &name).build().expect("fine terms");
    assert!(lock.inspect().await.expect("up").holder.is_none());
    let held = a.lock(name.as_str()).ttl(s.ttl() * 10).label("somebody pid 7").build().expect("fine terms");
    let guard = held.acquire().await.expect("up");
    tokio::time::sleep(ms(20)).await;
    let holder = lock.inspect().await.expect("up").holder.expect("it is held");
    assert_eq!(holder.label.as_deref(), Some("somebody pid 7"));
    assert!(holder.token.is_none_or(|token| token == guard.token()), "{holder:?}");
    assert!(holder.since.is_none_or(|since| since >= ms(15) && since < ms(5000)), "{holder:?}");
    assert!(holder.expires_in.is_none_or(|left| !left.is_zero() && left <= s.ttl() * 10), "{holder:?}");
    assert_eq!(guard.release().await, Ending::Released);
    assert!(lock.inspect().await.expect("up").holder.is_none());
}

async fn a_revoked_lock_is_free_at_its_holders_deadline(s: Setting) {
    let (name, other) = (s.name(), s.client().await);
    let guard = s.hold(&name).await;
    let lock = s.lock(&other, &name).build().expect("fine terms");
    let holder = s.seen(&lock, &guard).await;
    match lock.revoke(&holder.owner, When::HoldersDeadline).await.expect("up") {
        Revoked::FreeIn(left) => assert!(left <= s.ttl() * 2, "{left:?}"),
        other => {
            guard.check().expect("it is not held any more");
            panic!("{other:?}");
        }
    }
    // From now on: whenever it is free, its holder has been told.
    let taken = within("it comes free", s.ttl() * 4 + ms(1000), lock.acquire()).await.expect("up");
    assert!(!guard.is_held(), "somebody else holds it and the holder was not told");
    assert_eq!(within("told", ms(1000), guard.lost()).await, Cause::Revoked);
    assert_eq!(guard.release().await, Ending::Expired);
    taken.check().expect("held");
}

async fn a_lock_broken_now_is_free_at_once(s: Setting) {
    let (name, other) = (s.name(), s.client().await);
    let client = s.client().await;
    let held = client.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
    let guard = held.acquire().await.expect("up");
    let lock = other.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    tokio::time::sleep(ms(50)).await;
    let holder = lock.inspect().await.expect("up").holder.expect("it is held");
    assert_eq!(lock.revoke(&holder.owner, When::Now).await.expect("up"), Revoked::Free);
    let successor = within("the waiter has it", ms(1000), waiter).await.expect("no panic").expect("up");
    assert!(successor.token() > guard.token(), "only the token is between them");
    within("the holder is told at its next renewal", s.ttl() * 12, guard.lost()).await;
    assert_eq!(guard.release().await, Ending::Expired);
    successor.check().expect("held");
}

async fn only_the_holder_that_was_seen_is_revoked(s: Setting) {
    let (name, other) = (s.name(), s.client().await);
    let lock = s.lock(&other, &name).build().expect("fine terms");
    let first = s.hold_long(&name).await;
    let seen = lock.inspect().await.expect("up").holder.expect("it is held");
    assert_eq!(first.release().await, Ending::Released);
    let nobody = OwnerBytes::new(b"nobody".to_vec());
    for when in [When::HoldersDeadline, When::Now] {
        assert_eq!(lock.revoke(&seen.owner, when).await.expect("up"), Revoked::NotHeld, "it is free");
    }
    let second = s.hold(&name).await;
    for holder in [&seen.owner, &nobody] {
        for when in [When::HoldersDeadline, When::Now] {
            assert_eq!(lock.revoke(holder, when).await.expect("up"), Revoked::NotHeld, "it is another's");
        }
    }
    until("its holder renews on", s.ttl() * 4, || async { second.valid_for() > s.ttl() * 3 / 4 }).await;
    assert_eq!(second.release().await, Ending::Released);
}

async fn check_finds_the_server_in_order(s: Setting) {
    let findings = s.client().await.check().await.expect("up");
    assert!(!findings.is_empty());
    for finding in findings {
        assert_ne!(finding.level, lock_core::driver::Level::Bad, "{finding:?}");
        assert!(!finding.message.is_empty());
    }
}
