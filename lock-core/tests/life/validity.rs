//! Until when a lock is certain, by its guard.

use std::time::Duration;

use lock_core::{ErrorKind, LossReason};

use crate::scripted::{Script, client, granted, granted_of_old, held, held_of_old, ms, pass, released};
use crate::{TTL, acquired, lost};

#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_call_less_a_margin() {
    let (_, slow) = granted(TTL);
    let script = Script::new([(ms(100), slow)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert_eq!(guard.valid_for(), TTL - TTL / 100 - ms(2) - ms(100));
}

// Proves: margin
/// A session of 300 s was proven 100 s ago. The client's clock may have run slow for all 300 s.
#[tokio::test(start_paused = true)]
async fn the_margin_counts_from_the_whole_lease() {
    let (whole, age) = (Duration::from_secs(300), Duration::from_secs(100));
    let left = whole - age;
    let script = Script::new([granted_of_old(left, age)], [held_of_old(left, age)], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(whole).build().unwrap().acquire().await.unwrap();
    assert_eq!(guard.valid_for(), left - whole / 100 - ms(2) - ms(1), "as it was granted");
    assert_eq!(guard.renew(whole).await.unwrap(), left - whole / 100 - ms(2) - ms(1), "as it was renewed");
}

/// The process stood still while a renewal was under way. What its guard has said stays true.
#[tokio::test(start_paused = true)]
async fn a_guard_not_held_for_a_moment_is_lost() {
    let script = Script::new([granted(TTL)], [(ms(50), held(TTL * 10).1)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let (renewed, ()) = tokio::join!(guard.renew(TTL * 10), async {
        pass(ms(10)).await;
        script.jump(TTL);
        assert!(!guard.is_held());
    });
    assert_eq!(renewed.unwrap_err().kind(), ErrorKind::Lost, "although the server has prolonged it");
    assert_eq!(lost(&guard).await, LossReason::Expired);
    pass(ms(200)).await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_shorter_proof_does_not_replace_a_longer_one() {
    let script = Script::new([granted(TTL)], [held(TTL * 4), held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let certain = guard.renew(TTL * 4).await.unwrap();
    assert!(certain > TTL * 3);
    let asked = client.clock().now();
    while script.times_of("renew").len() < 2 {
        pass(ms(10)).await;
    }
    pass(ms(10)).await;
    let passed = client.clock().now().since(asked);
    assert!(guard.valid_for() + passed + ms(1) >= certain, "{:?} after {passed:?}", guard.valid_for());
}

/// A server whose clock was set back by an hour counts that hour as left.
#[tokio::test(start_paused = true)]
async fn a_lease_beyond_the_requested_ttl_is_not_believed() {
    let hour = Duration::from_secs(3600);
    let script = Script::new([granted(hour)], [held(hour), held(hour)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert!(guard.valid_for() < TTL, "{:?}", guard.valid_for());
    pass(TTL * 3).await;
    let renewals = script.times_of("renew");
    assert!(renewals.len() >= 8 && renewals.len() <= 10, "{renewals:?}");
    assert!(guard.renew(TTL * 2).await.unwrap() < TTL * 2);
}

/// As of a session whose last proof is a little old when a renewal asks. A holder that stands still for half of the ttl
/// keeps the lock.
#[tokio::test(start_paused = true)]
async fn half_the_ttl_is_certain_with_partial_renewals() {
    let worth = TTL / 5 * 4;
    let script = Script::new([granted(worth)], [held(worth)], [released()]);
    let guard = client(&script).await.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    for _ in 0..1000 {
        pass(TTL / 200).await;
        assert!(guard.valid_for() > TTL / 5 * 3, "{:?} of {TTL:?}", guard.valid_for());
    }
}

// Proves: protect
#[tokio::test(start_paused = true)]
async fn protect_looks_at_the_clock_after_the_work_too() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let outcome = guard.protect(async { script.jump(TTL * 2) }).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost, "it was not held until the work was done");
}
