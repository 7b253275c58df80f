//! Fixed leases, `max_hold` and `min_hold`.

use std::time::Duration;

use lock_core::driver::Lease;
use lock_core::{Ending, ErrorKind, LossReason};

use crate::scripted::{Script, busy, client, granted, granted_of_old, held, ms, pass, released};
use crate::{TTL, lost};

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_looked_at_but_not_prolonged() {
    let script = Script::new([busy(), busy(), granted(TTL)], [held(ms(2000))], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(TTL).fixed_lease().build().unwrap().acquire().await.unwrap();
    script.change.notify_one();
    pass(ms(10)).await;
    assert!(script.log().iter().any(|(_, what)| what == "renew 1ms"), "{:?}", script.log());
    assert_eq!(lost(&guard).await, LossReason::Expired);
    assert_eq!(script.times_of("renew").len(), 1);
}

/// The server may have a longer lease for it: its clock was set back, a session lives on, or a repeated attempt
/// prolonged it.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_ends_despite_the_servers_lease() {
    let script = Script::new([busy(), busy(), granted(TTL * 2)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(TTL).fixed_lease().build().unwrap().acquire().await.unwrap();
    let ends = client.clock().now() + TTL;
    pass(TTL / 2).await;
    script.change.notify_one();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(script.times_of("renew").len(), 1);
    assert!(client.clock().now() <= ends, "{:?}", client.clock().now().since(ends));
}

// Proves: fixed-lease
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_ends_to_the_millisecond() {
    for _ in 0..6 {
        let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
        let client = client(&script).await;
        let guard = client.lock("n").ttl(TTL).fixed_lease().build().unwrap().acquire().await.unwrap();
        assert_eq!(lost(&guard).await, LossReason::Expired);
        // Less 1 % and 2 ms, counted from before the attempt.
        assert_eq!(client.clock().now().since_origin(), ms(2968));
        assert!(script.times_of("renew").is_empty());
    }
}

// Proves: max-hold
#[tokio::test(start_paused = true)]
async fn max_hold_ends_it_to_the_millisecond() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(TTL).max_hold(ms(4000)).build().unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(lost(&guard).await, LossReason::MaxHold);
    assert_eq!(client.clock().now().since_origin().as_millis(), 4000);
    pass(ms(10)).await;
    assert_eq!(script.times_of("release"), [4000]);
}

// Proves: min-hold
#[tokio::test(start_paused = true)]
async fn min_hold_goes_on_renewing() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(TTL).min_hold(ms(5000)).build().unwrap();
    drop(lock.acquire().await.unwrap());
    assert_eq!(client.shutdown(ms(6000)).await, 0);
    assert_eq!(script.times_of("release"), [5000]);
    assert!(script.times_of("renew").len() >= 4);
}

// Proves: min-hold
#[tokio::test(start_paused = true)]
async fn a_release_is_answered_when_min_hold_is_over() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(TTL).min_hold(ms(5000)).build().unwrap().acquire().await.unwrap();
    pass(ms(100)).await;
    assert_eq!(guard.release().await, Ending::Released);
    assert_eq!(script.times_of("release"), [5000]);
    assert_eq!(client.clock().now().since_origin(), ms(5001));
}

// Proves: min-hold
/// When `run` returns, nothing is left to a runtime that may end.
#[tokio::test(start_paused = true)]
async fn run_returns_after_min_hold_and_release() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(TTL).min_hold(ms(5000)).build().unwrap();
    for (began, run) in [(0, "run"), (5001, "try_run")] {
        match run {
            "run" => lock.run(async |_| ()).await.unwrap(),
            _ => lock.try_run(async |_| ()).await.unwrap().unwrap(),
        }
        assert_eq!(client.clock().now().since_origin(), ms(began + 5001), "{run}");
        assert_eq!(script.times_of("release").last(), Some(&(began + 5000)), "{run}");
    }
    assert_eq!(client.shutdown(Duration::ZERO).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_shorter_than_min_hold_is_invalid() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = || client.lock("n").ttl(TTL).fixed_lease();
    let error = lock().min_hold(TTL).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("min_hold (3 s)"), "{error}");
    assert!(lock().min_hold(ms(2968)).build().is_err(), "less 1 % and 2 ms");
    drop(lock().min_hold(ms(2967)).build().unwrap().acquire().await.unwrap());
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(script.times_of("release"), [2967], "it is held for so long");
    client.lock("n").ttl(TTL).min_hold(TTL * 2).build().expect("this one is renewed");
}

// Proves: refused-terms
#[tokio::test(start_paused = true)]
async fn an_older_session_proof_limits_min_hold() {
    // Half of the ttl is left when the lock is granted.
    let script = Script::new([granted_of_old(TTL / 2, TTL / 2)], [held(TTL)], [released()]);
    script.lease.set(Lease::Session).unwrap();
    let client = client(&script).await;
    let lock = || client.lock("n").ttl(TTL).fixed_lease();
    assert!(lock().min_hold(ms(1468)).build().is_err(), "half of it, less 1 % of all and 2 ms");
    drop(lock().min_hold(ms(1467)).build().unwrap().acquire().await.unwrap());
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(script.times_of("release"), [1467], "it is held for so long");
}
