//! Renewing: when it is done, and what its answers mean.

use lock_core::driver::Renewal;
use lock_core::{Ending, ErrorKind, LossReason};

use crate::scripted::{Script, client, granted, held, ms, pass, released, unknown};
use crate::{TTL, acquired, lost};

// Proves: ttl
#[tokio::test(start_paused = true)]
async fn renewal_comes_at_a_third_of_the_remaining_lease() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(TTL * 3).await;
    let renewals = script.times_of("renew");
    assert!(renewals.len() >= 8 && renewals.len() <= 10, "{renewals:?}");
    assert!(renewals.windows(2).all(|pair| (890..=1001).contains(&(pair[1] - pair[0]))), "{renewals:?}");
    assert_eq!(guard.release().await, Ending::Released);
    let sent = script.times_of("renew").len();
    pass(TTL * 2).await;
    assert_eq!(script.times_of("renew").len(), sent, "nothing is renewed after its release");
}

#[tokio::test(start_paused = true)]
async fn failing_renewals_repeat_until_the_deadline_loses_it() {
    let script = Script::new([granted(TTL)], [unknown(ms(50))], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let until = guard.valid_for();
    assert_eq!(lost(&guard).await, LossReason::Expired);
    let renewals = script.times_of("renew");
    assert!(renewals.len() >= 4, "{renewals:?}");
    // Told at the deadline, neither before nor after.
    assert!(guard.valid_for().is_zero());
    pass(ms(60)).await; // the last renewal, for which no caller waits, comes to its end
    let released = script.times_of("release");
    assert!(released[0] >= until.as_millis() as u64 && released[0] <= 2970 + 51, "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn one_answered_renewal_is_enough() {
    let script = Script::new([granted(TTL)], [unknown(ms(900)), held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(TTL * 4).await;
    assert!(guard.is_held());
}

/// A caller's patience is that of one call. It does not have to wait for the call before it as well.
#[tokio::test(start_paused = true)]
async fn a_manual_renewal_shares_the_pending_ones_failure() {
    let script = Script::new([granted(TTL)], [unknown(ms(300)), held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    // The guard's own renewal begins after a third of the lease, or up to a tenth of that sooner.
    while script.times_of("renew").is_empty() {
        pass(ms(1)).await;
    }
    pass(ms(100)).await;
    let asked = client.clock().now();
    assert!(guard.renew(TTL).await.unwrap_err().is_transient());
    assert!(client.clock().now().since(asked) <= ms(200), "it waited for another call");
    guard.renew(TTL).await.expect("a failure before this renewal was asked for is not its answer");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_delay_the_news() {
    let script = Script::new([granted(TTL)], [(ms(60_000), held(TTL).1)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let until = client.clock().now() + guard.valid_for();
    assert_eq!(lost(&guard).await, LossReason::Expired);
    assert!(client.clock().now() <= until + ms(1), "told at {:?}, due at {until:?}", client.clock().now());
    pass(ms(70_000)).await;
    assert!(!guard.is_held(), "a late answer does not make it held again");
    assert_eq!(script.times_of("release").len(), 1, "what may be left on the server is released");
    assert_eq!(guard.release().await, Ending::Expired);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_is_lost_is_lost() {
    for cause in [LossReason::Revoked, LossReason::Taken, LossReason::Gone, LossReason::Session] {
        let script = Script::new([granted(TTL)], [(ms(1), Ok(Renewal::Lost(cause)))], [released()]);
        let client = client(&script).await;
        let guard = acquired(&client).await;
        assert_eq!(lost(&guard).await, cause);
        assert_eq!(script.times_of("renew").len(), 1);
        let error = guard.protect(async {}).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Lost && error.to_string().contains("\"n\""), "{error}");
    }
}
