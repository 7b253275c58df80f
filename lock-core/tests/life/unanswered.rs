//! A server that no longer answers: what its holders are told, and for how long releases go on.

use std::sync::Arc;

use lock_core::driver::Lease;
use lock_core::{Client, Ending, ErrorKind, Guard, Reentrant};

use crate::scripted::{Script, client, granted, ms, pass, unknown};
use crate::{PATIENCE, TTL, acquired, lock, lost};

/// A client of a server that grants, and then answers nothing.
async fn dead_after_the_grant(lease: Lease) -> (Arc<Script>, Client) {
    let script = Script::new([granted(TTL)], [unknown(PATIENCE)], [unknown(PATIENCE)]);
    script.lease.set(lease).unwrap();
    let client = client(&script).await;
    (script, client)
}

async fn told_of_the_loss(client: &Client, guard: &Guard) {
    let outcome = client.clock().timeout(ms(10), guard.renew(TTL)).await.expect("told at once");
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
}

// Proves: renew
#[tokio::test(start_paused = true)]
async fn renewing_a_lost_lock_answers_at_once() {
    for lease in [Lease::Lock, Lease::Session] {
        let (_script, client) = dead_after_the_grant(lease).await;
        let guard = acquired(&client).await;
        lost(&guard).await;
        // While the last renewal may still be answered, and after that.
        told_of_the_loss(&client, &guard).await;
        pass(PATIENCE * 2).await;
        told_of_the_loss(&client, &guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_answered_when_its_loss_is_known() {
    for lease in [Lease::Lock, Lease::Session] {
        let (_script, client) = dead_after_the_grant(lease).await;
        let guard = acquired(&client).await;
        pass(guard.valid_for() - ms(10)).await;
        // Behind a renewal of the claim's own that is under way.
        let outcome = client.clock().timeout(PATIENCE, guard.renew(TTL)).await.expect("told");
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost, "{lease:?}");
    }
}

// Proves: release
#[tokio::test(start_paused = true)]
async fn releasing_a_lost_lock_answers_at_once() {
    for lease in [Lease::Lock, Lease::Session] {
        for later in [ms(0), PATIENCE * 2] {
            let (_script, client) = dead_after_the_grant(lease).await;
            let guard = acquired(&client).await;
            lost(&guard).await;
            pass(later).await;
            let asked = client.clock().now();
            assert_eq!(guard.release().await, Ending::Expired, "{lease:?}");
            assert_eq!(client.clock().now(), asked, "{lease:?}, {later:?} after the loss");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_guard_of_a_lost_lock_releases_at_once() {
    for lease in [Lease::Lock, Lease::Session] {
        let (_script, client) = dead_after_the_grant(lease).await;
        let lock = client.lock("n").ttl(TTL).reentrant(&Reentrant::new()).build().unwrap();
        let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
        lost(&outer).await;
        for guard in [inner, outer] {
            let ending = client.clock().timeout(ms(10), guard.release()).await;
            assert_eq!(ending.expect("told at once"), Ending::Expired, "{lease:?}");
        }
    }
}

// Proves: release
#[tokio::test(start_paused = true)]
async fn an_unanswered_longer_renewal_extends_the_release() {
    let (script, client) = dead_after_the_grant(Lease::Lock).await;
    let guard = lock(&client).acquire().await.unwrap();
    let error = guard.renew(TTL * 100).await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error:?}");
    drop(guard);
    pass(TTL * 10).await;
    let before = script.times_of("release").len();
    pass(TTL * 2).await;
    assert!(script.times_of("release").len() > before, "{:?}", script.times_of("release"));
    assert_eq!(client.shutdown(TTL * 100).await, 0, "the releases have ended by then");
}
