//! Several locks as one, each on a server of its own: what becomes of the locks that were acquired when another one was
//! not.

use std::sync::Arc;

use lock_core::driver::{Attempt, Renewal};
use lock_core::{Client, Clock, Ending, ErrorKind, LockBuilder, LossReason, MultiGuard, MultiLock, Result};

use crate::TTL;
use crate::scripted::{Script, Step, busy, client, granted, held, ms, released, unknown};

async fn server(attempt: Step<Attempt>) -> (Arc<Script>, Client) {
    let script = Script::new([attempt], [held(TTL)], [released()]);
    let client = client(&script).await;
    (script, client)
}

fn both(first: LockBuilder, second: LockBuilder) -> MultiLock {
    MultiLock::new([first.build().unwrap(), second.build().unwrap()]).unwrap()
}

/// With a time limit: a virtual clock goes on for ever if nothing else happens.
async fn acquired(locks: &MultiLock) -> Option<Result<MultiGuard>> {
    Clock::system().timeout(TTL * 10, locks.acquire()).await
}

// Proves: several-all-or-none
#[tokio::test(start_paused = true)]
async fn a_wait_for_several_ends_in_time() {
    let ((_, a), (_, b)) = (server((ms(80), granted(TTL).1)).await, server(busy()).await);
    let error = both(a.lock("a").ttl(TTL), b.lock("b").ttl(TTL)).wait(ms(300)).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Timeout, "b"), "{error:?}");
    assert_eq!(a.clock().now().since_origin(), ms(300));
}

// Proves: several-all-or-none
#[tokio::test(start_paused = true)]
async fn a_caller_without_all_locks_keeps_none() {
    for what in ["try", "wait", "drop"] {
        let ((script, a), (_, b)) = (server(granted(TTL)).await, server(busy()).await);
        let locks = both(a.lock("a").ttl(TTL).min_hold(ms(5000)), b.lock("b").ttl(TTL));
        match what {
            "try" => assert!(locks.try_acquire().await.unwrap().is_none()),
            "wait" => {
                let error = locks.wait(ms(150)).acquire().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
            }
            _ => assert!(Clock::system().timeout(ms(150), locks.acquire()).await.is_none()),
        }
        let gave_up = a.clock().now().since_origin();
        assert_eq!(a.shutdown(TTL * 2).await, 0);
        assert_eq!(script.times_of("release"), [gave_up.as_millis() as u64], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_all_locks_keeps_each_min_hold() {
    for try_it in [true, false] {
        let ((script, a), (other, b)) = (server(granted(TTL)).await, server(granted(TTL)).await);
        let locks = both(a.lock("a").ttl(TTL).min_hold(ms(5000)), b.lock("b").ttl(TTL));
        let guard = match try_it {
            true => locks.try_acquire().await.unwrap().unwrap(),
            false => locks.acquire().await.unwrap(),
        };
        assert_eq!(guard.release().await, Ending::Released);
        assert_eq!((script.times_of("release"), other.times_of("release")), (vec![5000], vec![2]));
    }
}

// Proves: several-lost-meanwhile
/// The first lock's lease is over before the second lock's server has answered.
#[tokio::test(start_paused = true)]
async fn a_first_lock_always_lost_respects_the_wait() {
    for wait in [ms(0), ms(500)] {
        let ((script, a), (_, b)) = (server(granted(ms(20))).await, server((ms(100), busy().1)).await);
        let locks = both(a.lock("a").ttl(ms(20)).fixed_lease(), b.lock("b").ttl(TTL)).wait(wait);
        let error = acquired(&locks).await.expect("a wait has an end").unwrap_err();
        assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Lost, "a"), "{error:?}");
        let took = a.clock().now().since_origin();
        assert!(took >= wait && took <= wait + ms(100), "{wait:?}: {took:?}");
        let attempts = script.times_of("attempt");
        assert!(attempts.len() <= 10, "with a pause after each loss: {attempts:?}");
    }
}

// Proves: several-lost-meanwhile
#[tokio::test(start_paused = true)]
async fn an_unlimited_wait_attempts_with_growing_backoff() {
    let ((script, a), (_, b)) = (server(granted(ms(20))).await, server((ms(100), busy().1)).await);
    let locks = both(a.lock("a").ttl(ms(20)).fixed_lease(), b.lock("b").ttl(TTL));
    assert!(acquired(&locks).await.is_none());
    let attempts = script.times_of("attempt");
    assert!((30..=70).contains(&attempts.len()), "one a second in the end: {} in 30 s", attempts.len());
}

/// Two locks: the server of the second confirms nothing, the server of the first confirms everything.
async fn one_of_two_at_risk(fixed: bool) -> (Client, MultiGuard) {
    let (_, a) = server(granted(TTL)).await;
    let script = Script::new([granted(TTL)], [unknown(ms(100))], [released()]);
    let b = client(&script).await;
    let second = b.lock("b").ttl(TTL);
    let second = if fixed { second.fixed_lease() } else { second };
    let guard = both(a.lock("a").ttl(TTL), second).acquire().await.unwrap();
    (b, guard)
}

#[tokio::test(start_paused = true)]
async fn the_risk_of_one_lock_is_named_before_loss() {
    for (before, fixed) in [(ms(500), true), (ms(500), false), (ms(1400), false), (ms(0), false)] {
        let (b, guard) = one_of_two_at_risk(fixed).await;
        let deadline = b.clock().now() + guard.guards()[1].valid_for();
        let (name, cause) =
            Clock::system().timeout(TTL * 2, guard.at_risk(before)).await.expect("it is not renewed");
        assert_eq!((name.as_str(), cause), ("b", LossReason::Expired), "{before:?}");
        // The clock's timers have whole milliseconds.
        let left = deadline.since(b.clock().now());
        assert!(left <= before && left + ms(1) >= before, "{before:?}: {left:?} are left");
        assert_eq!(guard.is_held(), before > ms(0), "{before:?}");
        assert!(guard.guards()[0].is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn none_is_at_risk_while_all_are_renewed() {
    let ((_, a), (_, b)) = (server(granted(TTL)).await, server(granted(TTL)).await);
    let guard = both(a.lock("a").ttl(TTL), b.lock("b").ttl(TTL)).acquire().await.unwrap();
    assert!(Clock::system().timeout(TTL * 20, guard.at_risk(TTL / 2)).await.is_none());
    assert!(guard.is_held());
    let (_, cause) = guard.at_risk(TTL).await;
    assert_eq!(cause, LossReason::Expired, "no lease is certain for all of its ttl");
}

#[tokio::test(start_paused = true)]
async fn the_risk_of_lost_locks_is_reported_at_once() {
    let (_, a) = server(granted(TTL)).await;
    let script = Script::new([granted(TTL)], [(ms(1), Ok(Renewal::Lost(LossReason::Gone)))], [released()]);
    let b = client(&script).await;
    let guard = both(a.lock("a").ttl(TTL), b.lock("b").ttl(TTL)).acquire().await.unwrap();
    // Less than what is left: only the loss can be told.
    let (name, cause) = guard.at_risk(ms(100)).await;
    assert_eq!((name.as_str(), cause), ("b", LossReason::Gone));
    let told = b.clock().now();
    assert_eq!(told.since_origin().as_millis() as u64, script.times_of("renew")[0] + 1);
    let (name, cause) = guard.at_risk(ms(0)).await;
    assert_eq!((name.as_str(), cause, b.clock().now()), ("b", LossReason::Gone, told));
}
