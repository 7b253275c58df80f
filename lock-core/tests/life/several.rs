//! Several locks as one, each on a server of its own: what becomes of those that were had when another one was not.

use std::sync::Arc;

use lock_core::driver::Attempt;
use lock_core::{Client, Clock, Ending, ErrorKind, LockBuilder, MultiGuard, MultiLock, Result};

use crate::TTL;
use crate::scripted::{Script, Step, busy, client, granted, held, ms, released};

async fn server(attempt: Step<Attempt>) -> (Arc<Script>, Client) {
    let script = Script::new([attempt], [held(TTL)], [released()]);
    let client = client(&script).await;
    (script, client)
}

fn both(first: LockBuilder, second: LockBuilder) -> MultiLock {
    MultiLock::new([first.build().unwrap(), second.build().unwrap()]).unwrap()
}

/// Bounded: a virtual clock goes on for ever where nothing else happens.
async fn acquired(locks: &MultiLock) -> Option<Result<MultiGuard>> {
    Clock::system().timeout(TTL * 10, locks.acquire()).await
}

#[tokio::test(start_paused = true)]
async fn who_gets_not_all_keeps_none_for_its_shortest_hold() {
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
async fn who_gets_all_keeps_each_for_its_shortest_hold() {
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

/// The first one's lease is over before the second one's server has answered.
#[tokio::test(start_paused = true)]
async fn a_first_lock_that_is_always_lost_does_not_outlast_the_wait() {
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

#[tokio::test(start_paused = true)]
async fn who_waits_without_end_asks_less_and_less_often() {
    let ((script, a), (_, b)) = (server(granted(ms(20))).await, server((ms(100), busy().1)).await);
    let locks = both(a.lock("a").ttl(ms(20)).fixed_lease(), b.lock("b").ttl(TTL));
    assert!(acquired(&locks).await.is_none());
    let attempts = script.times_of("attempt");
    assert!((30..=70).contains(&attempts.len()), "one a second at last: {} in 30 s", attempts.len());
}
