//! A lock that is revoked: when its holder is told, and when the holder gives back what is left.

use lock_core::driver::{Renewal, Watched};
use lock_core::{Client, Ending, ErrorKind, LossReason};

use crate::scripted::{Script, busy, client, granted, held, ms, pass, released, unknown};
use crate::{PATIENCE, TTL, acquired, lost};

/// A script whose second renewal says that the lock was revoked.
fn revoked_later() -> std::sync::Arc<Script> {
    lost_later(LossReason::Revoked)
}

fn lost_later(cause: LossReason) -> std::sync::Arc<Script> {
    Script::new([granted(TTL)], [held(TTL), (ms(1), Ok(Renewal::Lost(cause)))], [released()])
}

async fn watching(watched: Watched) -> (std::sync::Arc<Script>, Client) {
    let script = revoked_later();
    script.watches.lock().unwrap().push_back((ms(10), Ok(watched)));
    let client = client(&script).await;
    (script, client)
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_watched_once_and_looked_at() {
    let (script, client) = watching(Watched::FromNowOn).await;
    let guard = acquired(&client).await;
    pass(ms(500)).await;
    assert_eq!(script.times_of("watch"), [200]);
    // A revoke before that was not announced.
    assert_eq!((script.times_of("renew 1ms"), script.times_of("renew").len()), (vec![210], 1));
    assert!(guard.is_held(), "without a notification it learns of the revoke from its next renewal");
    script.change.notify_one();
    assert_eq!(lost(&guard).await, LossReason::Revoked);
    assert!(client.clock().now().since_origin() < ms(510), "told as soon as the server announced it");
}

#[tokio::test(start_paused = true)]
async fn a_lock_watched_since_grant_is_not_looked_at() {
    let (script, client) = watching(Watched::SinceTheGrant).await;
    let _guard = acquired(&client).await;
    pass(ms(500)).await;
    assert_eq!((script.times_of("watch").len(), script.times_of("renew").len()), (1, 0));
}

// Proves: revoke-looks
#[tokio::test(start_paused = true)]
async fn a_look_leaves_the_renewals_where_they_were() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    script.watches.lock().unwrap().push_back((ms(10), Ok(Watched::FromNowOn)));
    let client = client(&script).await;
    let _guard = acquired(&client).await;
    pass(TTL * 3).await;
    assert_eq!(script.times_of("renew 1ms"), [210]);
    let renewals = script.times_of("renew 3s");
    assert!((900..=1001).contains(&renewals[0]) && (8..=10).contains(&renewals.len()), "{renewals:?}");
}

// Proves: revoke-looks
#[tokio::test(start_paused = true)]
async fn a_failed_look_is_repeated_until_answered() {
    for (renewed, told) in [(true, false), (false, false), (false, true)] {
        let lost_at_last =
            [unknown(ms(50)), unknown(ms(50)), (ms(1), Ok(Renewal::Lost(LossReason::Revoked)))];
        let script = Script::new([busy(), busy(), granted(TTL)], lost_at_last, [released()]);
        // The server announces the revoke; or the watch begins too late for that.
        let watched = if told { Watched::SinceTheGrant } else { Watched::FromNowOn };
        script.watches.lock().unwrap().push_back((ms(10), Ok(watched)));
        let client = client(&script).await;
        let lock = client.lock("n").ttl(TTL);
        let lock = if renewed { lock } else { lock.fixed_lease() };
        let guard = lock.build().unwrap().acquire().await.unwrap();
        let since = client.clock().now();
        pass(ms(220)).await;
        if told {
            script.change.notify_one();
        }
        assert_eq!(lost(&guard).await, LossReason::Revoked, "renewed {renewed}, told {told}");
        let late = client.clock().now().since(since);
        assert!(late < ms(800), "renewed {renewed}, told {told}: after {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_answered_is_not_repeated() {
    let script = Script::new([granted(TTL)], [unknown(ms(50)), held(ms(2000))], [released()]);
    script.watches.lock().unwrap().push_back((ms(10), Ok(Watched::FromNowOn)));
    let client = client(&script).await;
    let guard = client.lock("n").ttl(TTL).fixed_lease().build().unwrap().acquire().await.unwrap();
    assert_eq!(lost(&guard).await, LossReason::Expired);
    assert_eq!(script.times_of("renew").len(), 2);
}

/// The process did not run for a moment. It learns of the change when it is about to ask for the watch.
#[tokio::test(start_paused = true)]
async fn a_notification_while_watching_causes_a_look() {
    for watch in [(ms(1), Ok(Watched::SinceTheGrant)), unknown(ms(50))] {
        let lost_at_once = [(ms(1), Ok(Renewal::Lost(LossReason::Revoked)))];
        let script = Script::new([granted(TTL)], lost_at_once, [released()]);
        script.watches.lock().unwrap().push_back(watch);
        let client = client(&script).await;
        let guard = acquired(&client).await;
        pass(ms(100)).await;
        script.jump(ms(200));
        script.change.notify_one();
        let told = client.clock().now();
        assert_eq!(lost(&guard).await, LossReason::Revoked);
        assert!(client.clock().now().since(told) < ms(100), "{:?}", client.clock().now().since(told));
    }
}

#[tokio::test(start_paused = true)]
async fn a_briefly_held_lock_is_not_watched() {
    let (script, client) = watching(Watched::FromNowOn).await;
    let guard = acquired(&client).await;
    pass(ms(190)).await;
    assert_eq!(guard.release().await, Ending::Released);
    assert_eq!((script.times_of("watch").len(), script.times_of("renew").len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_delays_neither_renewal_nor_release() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    script.watches.lock().unwrap().push_back((TTL * 10, Ok(Watched::FromNowOn)));
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(TTL).await;
    let renewals = script.times_of("renew 3s");
    assert!(renewals.len() >= 2 && renewals[0] <= 1000, "{renewals:?}");
    assert!(guard.is_held());
    let asked = client.clock().now();
    assert_eq!(guard.release().await, Ending::Released);
    assert!(client.clock().now().since(asked) <= ms(2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_asked_for_again() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    script.watches.lock().unwrap().extend([unknown(ms(50)), (ms(1), Ok(Watched::SinceTheGrant))]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(TTL * 2).await;
    let watches = script.times_of("watch");
    assert_eq!((watches.len(), watches[0]), (2, 200), "{watches:?}");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_released_when_its_guard_goes() {
    // Of a session that was given up something may be left, too.
    for (cause, drops) in
        [(LossReason::Revoked, true), (LossReason::Revoked, false), (LossReason::Session, true)]
    {
        let script = lost_later(cause);
        let client = client(&script).await;
        let guard = acquired(&client).await;
        assert_eq!(lost(&guard).await, cause);
        pass(ms(200)).await;
        assert_eq!(script.times_of("release"), [], "the holder's work may go on");
        assert_eq!(guard.renew(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
        match drops {
            true => drop(guard),
            false => assert_eq!(guard.release().await, Ending::Expired),
        }
        assert_eq!(client.shutdown(ms(10)).await, 0);
        assert_eq!(script.times_of("release").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_stays_keeps_revoked_until_deadline() {
    let script = revoked_later();
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(ms(500)).await;
    assert_eq!(lost(&guard).await, LossReason::Revoked);
    // Renewed once, between 900 ms and 1 s.
    pass(TTL * 3).await;
    let releases = script.times_of("release");
    let renewed = script.times_of("renew")[0];
    let ends = renewed + (TTL + PATIENCE).as_millis() as u64;
    assert!(releases.len() == 1 && releases[0] >= renewed + 3000 && releases[0] <= ends + 50, "{releases:?}");
    assert_eq!(client.shutdown(ms(10)).await, 0, "a lost guard keeps nothing");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn the_next_task_queues_at_once_after_a_revoke() {
    let script = revoked_later();
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let next = tokio::spawn({
        let lock = crate::lock(&client);
        async move { lock.acquire().await }
    });
    assert_eq!(lost(&guard).await, LossReason::Revoked);
    pass(ms(5)).await;
    assert_eq!(script.times_of("attempt").len(), 2, "the server says when it is free");
    let _guard = next.await.unwrap().unwrap();
    drop(guard);
}
