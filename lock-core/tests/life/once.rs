//! Work that is done once per period: what is asked of the server when the work is done, and when.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Renewal, Revoked};
use lock_core::{
    Client, Completion, Effect, Ending, Error, ErrorKind, LossReason, Period, PeriodicGuard, PeriodicLock,
    Reentrant,
};

use crate::scripted::{Script, Shown, Step, busy, client, entry, granted, held, ms, pass, released, unknown};
use crate::{PATIENCE, TTL, lock};

const SLOT: Duration = ms(60_000);
/// The server's time when the client's clock shows zero: 10 s after the beginning of a slot, in microseconds.
const AHEAD: i64 = 1_795_669_570_000_000;

/// A script whose server tells its time in 1 ms.
fn script(renewals: impl IntoIterator<Item = Step<Renewal>>) -> Arc<Script> {
    let script = Script::new([granted(TTL)], renewals, [released()]);
    script.times.lock().unwrap().push_back((ms(1), Ok(AHEAD)));
    script
}

fn periodic(client: &Client) -> PeriodicLock {
    lock(client).once_per(Period::every(SLOT).unwrap()).unwrap()
}

async fn begun(client: &Client) -> PeriodicGuard {
    periodic(client).acquire().await.unwrap()
}

/// Returns the last renewal: when it was sent, and for how long, both in milliseconds.
fn last_renewal(script: &Script) -> (u128, f64) {
    let log = script.log();
    let (at, what) = log.iter().rfind(|(_, what)| what.starts_with("renew")).expect("it was renewed");
    let ttl = what.strip_prefix("renew ").and_then(|ttl| ttl.strip_suffix('s')).expect("in seconds");
    (at.as_millis(), ttl.parse::<f64>().expect("a number") * 1000.0)
}

/// Fails the test if anything more is asked of the server.
async fn nothing_follows(script: &Script, client: &Client) {
    let asked = script.log().len();
    assert_eq!(client.shutdown(ms(1)).await, 0, "the claim has ended");
    pass(SLOT * 2).await;
    assert_eq!(script.log().len(), asked, "{:?}", script.log());
}

// Proves: slot-kept
#[tokio::test(start_paused = true)]
async fn completed_work_keeps_its_lock_to_slot_end() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let guard = begun(&client).await;
    pass(ms(20_000)).await;
    assert_eq!(guard.complete().await, Completion::Kept);
    let (at, ttl) = last_renewal(&script);
    // 50 s are left of the slot at the origin of the clock. The lease is counted from the request's arrival, and the
    // time was read before: so it ends with the slot, or up to two calls later.
    let ends = at as f64 + ttl;
    assert!((50_000.0..=50_005.0).contains(&ends), "sent at {at} ms for {ttl} ms");
    assert!(script.times_of("release").is_empty());
    nothing_follows(&script, &client).await;
}

#[tokio::test(start_paused = true)]
async fn the_offset_moves_the_slots_end() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let period = Period::every(SLOT).unwrap().with_offset(ms(25_000)).unwrap();
    let guard = lock(&client).once_per(period).unwrap().acquire().await.unwrap();
    assert_eq!(guard.complete().await, Completion::Kept);
    let (at, ttl) = last_renewal(&script);
    assert!((15_000.0..=15_005.0).contains(&(at as f64 + ttl)), "sent at {at} ms for {ttl} ms");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_time_gets_no_other_request() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = periodic(&client);
    assert_eq!(lock.acquire().await.map(drop).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(lock.try_acquire().await.map(drop).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(script.log().is_empty(), "{:?}", script.log());
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_an_unknown_slot_is_released() {
    let script = script([held(TTL)]);
    *script.times.lock().unwrap() = [(ms(1), Ok(AHEAD)), unknown(ms(100)), (ms(1), Ok(AHEAD))].into();
    let client = client(&script).await;
    let error = periodic(&client).try_acquire().await.map(drop).unwrap_err();
    assert!(error.is_transient(), "{error}");
    pass(ms(10)).await;
    assert_eq!(script.times_of("release").len(), 1);
    // A caller that waits attempts again, and is granted the same lock again.
    *script.times.lock().unwrap() = [(ms(1), Ok(AHEAD)), unknown(ms(100)), (ms(1), Ok(AHEAD))].into();
    let guard = begun(&client).await;
    assert_eq!(script.times_of("attempt").len(), 3);
    assert_eq!(guard.complete().await, Completion::Kept);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_after_its_slot_keeps_nothing() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let guard = begun(&client).await;
    pass(ms(50_000)).await;
    let renewals = script.times_of("renew").len();
    assert_eq!(guard.complete().await, Completion::SlotOver);
    assert_eq!(script.times_of("renew").len(), renewals, "the next slot is not this run's");
    assert_eq!(script.times_of("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_gives_its_slot_back_at_once() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let failed = periodic(&client).run(async |_| Err::<(), _>("failed")).await;
    assert_eq!(failed.unwrap(), Err("failed"));
    assert_eq!(script.times_of("release").len(), 1);
    drop(begun(&client).await);
    pass(ms(10)).await;
    assert_eq!(script.times_of("release").len(), 2);
    assert_eq!(begun(&client).await.release().await, Ending::Released);
    assert!(script.times_of("renew").is_empty());
}

#[tokio::test(start_paused = true)]
async fn work_that_returns_ok_keeps_its_slot() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let done = periodic(&client).try_run(async |_| Ok::<_, ()>(7)).await;
    assert_eq!(done.unwrap(), Some(Ok(7)));
    assert_eq!((script.times_of("renew").len(), script.times_of("release").len()), (1, 0));
    *script.attempts.lock().unwrap() = [busy()].into();
    assert_eq!(periodic(&client).try_run(async |_| Ok::<_, ()>(8)).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_caller_has_gone_goes_on() {
    let script = script([(ms(200), held(TTL).1)]);
    let client = client(&script).await;
    let guard = begun(&client).await;
    let completion = tokio::spawn(guard.complete());
    pass(ms(100)).await;
    assert_eq!(script.times_of("renew").len(), 1, "it is under way");
    completion.abort();
    pass(ms(200)).await;
    assert!(script.times_of("release").is_empty(), "{:?}", script.log());
    nothing_follows(&script, &client).await;
}

// Proves: slot-without-answer
#[tokio::test(start_paused = true)]
async fn an_unanswered_completion_is_retried_and_never_released() {
    let script = script([unknown(ms(100)), held(TTL)]);
    let client = client(&script).await;
    assert_eq!(begun(&client).await.complete().await, Completion::Kept);
    assert_eq!(script.times_of("renew").len(), 2);
    assert_eq!(script.times_of("time").len(), 4, "each try asks for the time: much has passed meanwhile");
    assert!(script.times_of("release").is_empty());

    *script.renewals.lock().unwrap() = [unknown(ms(100))].into();
    let asked = client.clock().now();
    let guard = begun(&client).await;
    assert_eq!(guard.complete().await, Completion::Lost, "it is not known");
    assert!(client.clock().now().since(asked) <= TTL + ms(100));
    assert!(script.times_of("release").is_empty(), "a slot that may be kept is not given back");
    nothing_follows(&script, &client).await;
}

#[tokio::test(start_paused = true)]
async fn completing_work_without_the_lock_is_an_error() {
    let script = script([(ms(1), Ok(Renewal::Lost(LossReason::Taken)))]);
    let client = client(&script).await;
    let error = periodic(&client).run(async |_| Ok::<_, ()>(())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("\"n\""), "{error}");
    assert_eq!(begun(&client).await.complete().await, Completion::Lost);
}

// Proves: slot-near-its-end
#[tokio::test(start_paused = true)]
async fn a_completion_near_slot_end_waits_and_releases() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let guard = begun(&client).await;
    // 49 s after the origin, the lease lasts up to 3 s, and the slot 1 s.
    pass(ms(49_000)).await;
    assert_eq!(guard.complete().await, Completion::Kept);
    let released = script.times_of("release");
    assert!(released.len() == 1 && (50_000..=50_010).contains(&released[0]), "{released:?}");
    let renewals = script.times_of("renew");
    assert!(renewals.last() > Some(&48_990), "if the program dies now, the slot is kept all the same");
}

#[tokio::test(start_paused = true)]
async fn the_slots_end_is_the_servers() {
    let script = script([held(TTL)]);
    let client = client(&script).await;
    let guard = begun(&client).await;
    pass(ms(49_000)).await;
    // Set back by half a second after the server was asked for the slot's last second.
    *script.times.lock().unwrap() = [(ms(1), Ok(AHEAD)), (ms(1), Ok(AHEAD - 500_000))].into();
    assert_eq!(guard.complete().await, Completion::Kept);
    let released = script.times_of("release");
    assert!(released.len() == 1 && (50_500..=50_510).contains(&released[0]), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_on_its_way_is_outlasted() {
    let script = script([held(TTL)]);
    *script.attempts.lock().unwrap() =
        [(ms(10), Err(Error::unavailable(Effect::Unknown, "no answer"))), granted(TTL)].into();
    let client = client(&script).await;
    let guard = begun(&client).await;
    let first = script.times_of("attempt")[0];
    assert_eq!(guard.complete().await, Completion::Kept);
    let (at, ttl) = last_renewal(&script);
    assert!(ttl > 40_000.0, "{ttl}");
    let over = u128::from(first) + PATIENCE.as_millis();
    assert!(at >= over, "the slot is kept at {at}, and the attempt can take effect until {over}");
    assert!(script.times_of("release").is_empty());
}

// Proves: slot-done-is-shown
#[tokio::test(start_paused = true)]
async fn people_see_that_it_is_done() {
    let script = script([held(TTL)]);
    *script.shown.lock().unwrap() = Shown::Holder({
        let mut shown = entry("the run", ms(1), ms(1));
        shown.token = lock_core::FencingToken::new(7);
        shown
    });
    script.revokes.lock().unwrap().push_back((ms(1), Ok(Revoked::FreeIn(SLOT))));
    let client = client(&script).await;
    let named = client.lock("n").ttl(TTL).label("the run").build().unwrap();
    let guard = named.once_per(Period::every(SLOT).unwrap()).unwrap().acquire().await.unwrap();
    assert_eq!(guard.complete().await, Completion::Kept);
    let log = script.log();
    let (_, mark) = log.last().unwrap();
    assert!(mark.starts_with("revoke n from theirs HoldersDeadline as done: the run"), "{mark}");
    // What another owner holds by then is left alone.
    *script.shown.lock().unwrap() = Shown::Holder(entry("another", ms(1), ms(1)));
    let marks = script.times_of("revoke").len();
    assert_eq!(begun(&client).await.complete().await, Completion::Kept);
    assert_eq!(script.times_of("revoke").len(), marks);
}

#[tokio::test(start_paused = true)]
async fn a_lock_says_its_name_and_period() {
    let client = client(&script([held(TTL)])).await;
    let lock = periodic(&client);
    assert_eq!((lock.name().as_str(), lock.period()), ("n", Period::every(SLOT).unwrap()));
    assert!(format!("{lock:?}").contains("PeriodicLock"));
}

// Proves: slot-unsupported
#[tokio::test(start_paused = true)]
async fn terms_that_cannot_be_kept_are_refused() {
    let client = client(&script([held(TTL)])).await;
    let refused = |lock: lock_core::Lock, length| {
        let error = lock.once_per(Period::every(length).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    };
    refused(lock(&client), Duration::from_secs(3601));
    refused(client.lock("n").reentrant(&Reentrant::new()).build().unwrap(), SLOT);
}
