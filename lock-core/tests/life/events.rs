//! The events of a claim's life add up. Neither an observer nor a panic of the driver can harm it.

use std::sync::{Arc, Mutex};

use lock_core::driver::Watched;
use lock_core::{Client, Ending, ErrorKind, Event, LossReason, Options};

use crate::scripted::{Script, busy, client_with, granted, held, ms, pass, released, unknown};
use crate::{PATIENCE, TTL, acquired, lock, lost};

/// The events that were reported, as words.
#[derive(Clone, Debug, Default)]
struct EventRecorder(Arc<Mutex<Vec<(u64, String)>>>);

impl EventRecorder {
    /// Makes a client that records the events of a lock's life, and when they were reported.
    async fn client(&self, script: &Arc<Script>) -> Client {
        let (events, started) = (self.0.clone(), crate::scripted::now());
        let options = Options::default().observer(move |event| {
            let word = match event {
                Event::Asked { .. } => "asked".to_owned(),
                Event::Granted { .. } => "granted".to_owned(),
                Event::NotGranted { why, .. } => format!("not granted: {}", why.as_str()),
                Event::Lost { cause, .. } => format!("lost: {}", cause.as_str()),
                Event::Ended { ending, .. } => format!("ended: {}", ending.as_str()),
                _ => return,
            };
            let at = u64::try_from(started.elapsed().as_millis()).unwrap();
            events.lock().unwrap().push((at, word));
        });
        client_with(script, options).await
    }

    fn words(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, word)| word.clone()).collect()
    }
}

const EXPIRED: [&str; 4] = ["asked", "granted", "lost: expired", "ended: expired"];

#[tokio::test(start_paused = true)]
async fn a_loss_found_by_the_clock_is_an_event() {
    let (script, recorder) =
        (Script::new([granted(TTL)], [held(TTL)], [released()]), EventRecorder::default());
    let client = recorder.client(&script).await;
    // The runtime stands still for longer than the lease.
    let error = lock(&client).run(async |_| script.jump(TTL * 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(recorder.words(), EXPIRED);
}

#[tokio::test(start_paused = true)]
async fn a_loss_found_by_a_call_is_an_event() {
    for what in ["renew", "release", "drop"] {
        let (script, recorder) =
            (Script::new([granted(TTL)], [held(TTL)], [released()]), EventRecorder::default());
        let client = recorder.client(&script).await;
        let guard = acquired(&client).await;
        script.jump(TTL * 2);
        match what {
            "renew" => assert_eq!(guard.renew(TTL).await.unwrap_err().kind(), ErrorKind::Lost),
            "release" => assert_eq!(guard.release().await, Ending::Expired),
            _ => drop(guard),
        }
        assert_eq!(client.shutdown(TTL).await, 0);
        assert_eq!(recorder.words(), EXPIRED, "{what}");
        assert!(script.times_of("renew").is_empty(), "{what}: a lost lock is not renewed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_event_comes_with_the_guards_notification() {
    let (script, recorder) =
        (Script::new([granted(TTL)], [unknown(TTL * 3)], [released()]), EventRecorder::default());
    let client = recorder.client(&script).await;
    let guard = acquired(&client).await;
    assert_eq!(lost(&guard).await, LossReason::Expired);
    let at = u64::try_from(client.clock().now().since_origin().as_millis()).unwrap();
    pass(TTL * 4).await;
    drop(guard);
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(recorder.words(), EXPIRED);
    let when = recorder.0.lock().unwrap()[2].0;
    assert!(when <= at, "the event came after {when} ms, the guard was told after {at} ms");
}

#[test]
fn the_runtimes_end_answers_requests_and_ends_grants() {
    let recorder = EventRecorder::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let guard = runtime.block_on(async {
        let script = Script::new([granted(TTL), busy()], [held(TTL)], [released()]);
        let client = recorder.client(&script).await;
        let guard = acquired(&client).await;
        let waiting = lock(&client);
        let waiting = tokio::spawn(async move { waiting.acquire().await.map(drop) });
        pass(ms(100)).await;
        assert!(!waiting.is_finished());
        guard
    });
    drop(runtime);
    assert!(!guard.is_held());
    let mut words = recorder.words();
    words.sort();
    let each_ended_once =
        ["asked", "asked", "ended: expired", "granted", "lost: runtime_ended", "not granted: error"];
    assert_eq!(words, each_ended_once);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_ends_nothing() {
    let script = Script::new([busy(), granted(TTL)], [held(TTL)], [released()]);
    let options = Options::default().observer(|event| panic!("in the observer: {event:?}"));
    let client = client_with(&script, options).await;
    let guard = acquired(&client).await;
    pass(TTL * 3).await;
    assert!(guard.is_held(), "it is renewed");
    assert_eq!(guard.release().await, Ending::Released);
    assert_eq!(client.shutdown(TTL).await, 0);
}

// Proves: panic-of-driver
#[tokio::test(start_paused = true)]
async fn a_lock_left_by_a_drivers_panic_is_released() {
    for (call, outcome) in [
        ("attempt", ["asked", "not granted: error"].as_slice()),
        ("renew", &["asked", "granted", "lost: runtime_ended", "ended: expired"]),
        ("release", &["asked", "granted", "lost: runtime_ended", "ended: expired"]),
    ] {
        let (script, recorder) =
            (Script::new([granted(TTL)], [held(TTL)], [released()]), EventRecorder::default());
        let client = recorder.client(&script).await;
        script.panics_in(call);
        match lock(&client).acquire().await {
            Err(error) => {
                assert!(call == "attempt" && error.may_have_taken_effect(), "{call}: {error:?}");
                // The message may hold an address with a password.
                assert!(!error.to_string().contains("the driver's bug"), "{error}");
            }
            Ok(guard) if call == "renew" => assert_eq!(lost(&guard).await, LossReason::RuntimeEnded),
            Ok(guard) => assert_eq!(guard.release().await, Ending::Expired, "{call}"),
        }
        assert_eq!(client.shutdown(TTL * 2).await, 0);
        let releases = script.times_of("release");
        assert!(
            releases.len() >= 2,
            "{call}: at once, and after an attempt that may be on its way: {releases:?}"
        );
        assert!(
            releases[1] - releases[0] <= u64::try_from(PATIENCE.as_millis()).unwrap() + 1,
            "{releases:?}"
        );
        assert_eq!(recorder.words(), outcome, "{call}");
    }
}

// Proves: panic-with-guard
/// The holder's work can't be dropped, as in a blocking section.
#[tokio::test(start_paused = true)]
async fn a_panicked_lock_is_released_at_drop_or_deadline() {
    for call in ["renew", "watch"] {
        for guard_goes in ["dropped", "released", "at its deadline"] {
            let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
            script.watches.lock().unwrap().push_back((ms(1), Ok(Watched::SinceTheGrant)));
            let recorder = EventRecorder::default();
            let client = recorder.client(&script).await;
            let guard = acquired(&client).await;
            let until =
                u64::try_from((client.clock().now() + guard.valid_for()).since_origin().as_millis()).unwrap();
            script.panics_in(call);
            assert_eq!(lost(&guard).await, LossReason::RuntimeEnded);
            pass(PATIENCE + ms(200)).await;
            assert_eq!(script.times_of("release"), [], "{call}: the holder's work may go on");
            assert_eq!(guard.renew(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
            let gone = u64::try_from(client.clock().now().since_origin().as_millis()).unwrap();
            match guard_goes {
                "dropped" => drop(guard),
                "released" => {
                    assert_eq!(guard.release().await, Ending::Expired);
                    assert_eq!(
                        script.times_of("release").len(),
                        1,
                        "{call}: the lock is free when `release` returns"
                    );
                }
                _ => {
                    pass(TTL).await;
                    assert_eq!(script.times_of("release"), [until], "{call}");
                }
            }
            assert_eq!(client.shutdown(TTL).await, 0);
            let due = if guard_goes == "at its deadline" { until } else { gone };
            assert_eq!(script.times_of("release"), [due], "{call}: {guard_goes}");
            assert_eq!(recorder.words(), ["asked", "granted", "lost: runtime_ended", "ended: expired"]);
        }
    }
}
