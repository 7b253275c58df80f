//! The report that a lock is at risk, and the reason why it will be lost.

use lock_core::{Clock, LossReason};

use crate::scripted::{Script, client, granted, held, ms, pass, released, unknown};
use crate::{TTL, acquired};

// Proves: at-risk
#[tokio::test(start_paused = true)]
async fn the_risk_is_told_when_so_much_is_left() {
    for before in [ms(1), ms(500), ms(1400), TTL] {
        // No renewal is confirmed.
        let script = Script::new([granted(TTL)], [unknown(ms(100))], [released()]);
        let client = client(&script).await;
        let guard = acquired(&client).await;
        let (granted, left) = (client.clock().now(), guard.valid_for());
        assert_eq!(guard.at_risk(before).await, LossReason::Expired, "{before:?}");
        assert_eq!(client.clock().now().since(granted), left.saturating_sub(before), "{before:?}");
        assert!(guard.is_held(), "there is still time: {before:?}");
        assert_eq!(guard.lost().await, LossReason::Expired);
    }
}

// Proves: at-risk
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_renewed_is_not_at_risk() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert!(Clock::system().timeout(TTL * 20, guard.at_risk(TTL * 49 / 100)).await.is_none());
    assert!(guard.is_held());
}

// Proves: at-risk
#[tokio::test(start_paused = true)]
async fn the_end_of_max_hold_is_a_risk_too() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(TTL).max_hold(ms(4000)).build().unwrap().acquire().await.unwrap();
    assert_eq!(guard.at_risk(ms(500)).await, LossReason::MaxHold);
    assert_eq!(client.clock().now().since_origin(), ms(3500));
    pass(ms(499)).await;
    assert!(guard.is_held());
}
