//! The contents of each event. The events of an acquisition fit together: each request is answered once, and
//! each grant ends once.

use std::collections::BTreeMap;

use lock_core::driver::Renewal;
use lock_core::{Client, Clock, Ending, Guard, LossReason, Owner, Refusal, Result};
use tokio::task::JoinHandle;

use crate::recorded::EventRecorder;
use crate::recorded::RecordedEvent::{
    self, Asked, Ended, Granted, Jumped, Lost, NotGranted, Renewed, Trouble,
};
use crate::scripted::{Script, busy, granted, held, ms, pass, released, unknown};
use crate::{TTL, acquired, lock, lost};

fn n() -> String {
    "n".to_owned()
}

#[tokio::test(start_paused = true)]
async fn events_tell_an_acquisition_from_request_to_end() {
    let script =
        Script::new([busy(), (ms(4), granted(TTL).1)], [(ms(3), held(TTL).1)], [(ms(2), released().1)]);
    let recorder = EventRecorder::default();
    let client = recorder.client(&script).await;
    pass(ms(10)).await;
    let guard = acquired(&client).await;
    let (owner, token) = (guard.owner(), guard.token());
    pass(ms(1500)).await;
    assert_eq!(guard.release().await, Ending::Released);
    let renewed = script.times_of("renew")[0] + 3;
    let expected = [
        (10, Asked(n())),
        // The first attempt took 1 ms, the second one 4.
        (15, Granted(n(), owner, token, ms(5))),
        (renewed, Renewed(n(), ms(3))),
        // Held from the start of the attempt that was granted until the release was answered.
        (1517, Ended(n(), owner, Ending::Released, ms(1517 - 11))),
    ];
    assert_eq!(recorder.all(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_event_has_reason_and_wait() {
    for (what, first, why, waited) in [
        ("looks and finds it held", (ms(7), busy().1), Refusal::Busy, ms(7)),
        ("looks and is not answered", unknown(ms(40)), Refusal::Error, ms(40)),
        ("waits for too long", busy(), Refusal::GivenUp, ms(250)),
        ("goes away", busy(), Refusal::GivenUp, ms(300)),
        ("is turned away", busy(), Refusal::Error, ms(350)),
    ] {
        let script = Script::new([first], [held(TTL)], [released()]);
        let recorder = EventRecorder::default();
        let client = recorder.client(&script).await;
        let limited = client.lock("n").ttl(TTL).wait(ms(250)).build().unwrap();
        match what {
            "waits for too long" => drop(limited.acquire().await.unwrap_err()),
            "goes away" => assert!(Clock::system().timeout(waited, acquired(&client)).await.is_none()),
            "is turned away" => {
                let waiting = waits(&client, "n");
                pass(waited).await;
                client.shutdown(TTL).await;
                waiting.await.unwrap().unwrap_err();
            }
            _ => drop(lock(&client).try_acquire().await),
        }
        client.shutdown(TTL).await;
        let at = u64::try_from(waited.as_millis()).unwrap();
        assert_eq!(recorder.all(), [(0, Asked(n())), (at, NotGranted(n(), why, waited))], "{what}");
    }
}

/// Spawns a caller that waits for this lock.
fn waits(client: &Client, name: &str) -> JoinHandle<Result<Guard>> {
    let lock = client.lock(name).ttl(TTL).build().unwrap();
    tokio::spawn(async move { lock.acquire().await })
}

/// The caller waits behind another task of this process, which holds the lock.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_another_task_is_told_of_too() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let recorder = EventRecorder::default();
    let client = recorder.client(&script).await;
    let guard = acquired(&client).await;
    let behind = client.lock("n").ttl(TTL).wait(ms(50)).build().unwrap();
    behind.acquire().await.unwrap_err();
    // The server was asked for the first caller only.
    assert_eq!(script.times_of("attempt"), [0]);
    let behind = &recorder.all()[2..];
    assert_eq!(behind, [(1, Asked(n())), (51, NotGranted(n(), Refusal::GivenUp, ms(50)))]);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn every_loss_event_names_cause_and_lock() {
    for cause in [
        LossReason::Revoked,
        LossReason::Taken,
        LossReason::Gone,
        LossReason::Session,
        LossReason::Expired,
        LossReason::MaxHold,
        LossReason::RuntimeEnded,
    ] {
        let renewal = match cause {
            LossReason::Expired => unknown(TTL * 2),
            LossReason::MaxHold => held(TTL),
            lost => (ms(1), Ok(Renewal::Lost(lost))),
        };
        let script = Script::new([granted(TTL)], [renewal], [released()]);
        let recorder = EventRecorder::default();
        let client = recorder.client(&script).await;
        let mut terms = client.lock("n").ttl(TTL);
        if cause == LossReason::MaxHold {
            terms = terms.max_hold(ms(1500));
        }
        let guard = terms.build().unwrap().acquire().await.unwrap();
        if cause == LossReason::RuntimeEnded {
            script.panics_in("renew");
        }
        assert_eq!(lost(&guard).await, cause);
        let told = client.clock().now().since_origin();
        let owner = guard.owner();
        drop(guard);
        assert_eq!(client.shutdown(TTL * 4).await, 0);
        let mut words = recorder.all();
        words.retain(|(_, event)| matches!(event, Lost(..) | Ended(..)));
        let [(lost_at, loss), (ended_at, end)] = &words[..] else { panic!("{cause:?}: {words:?}") };
        // The lock was asked for at 0.
        assert_eq!((ms(*lost_at), loss), (told, &Lost(n(), owner, cause, told)));
        assert_eq!(end, &Ended(n(), owner, Ending::Expired, ms(*ended_at)), "{cause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trouble_event_names_the_lock_and_call() {
    for call in ["attempt", "listen", "watch", "renew", "release", "claim"] {
        let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
        match call {
            "attempt" => script.attempts.lock().unwrap().push_front(unknown(ms(20))),
            "listen" => {
                script.attempts.lock().unwrap().extend([busy(), busy(), granted(TTL)]);
                script.attempts.lock().unwrap().pop_front();
                script.listens.lock().unwrap().extend([unknown(ms(20)), (ms(1), Ok(()))]);
            }
            "watch" => script.watches.lock().unwrap().push_front(unknown(ms(20))),
            "renew" => script.renewals.lock().unwrap().push_front(unknown(ms(20))),
            "release" => script.releases.lock().unwrap().push_front(unknown(ms(20))),
            _ => script.panics_in("renew"),
        }
        let recorder = EventRecorder::default();
        let client = recorder.client(&script).await;
        let guard = acquired(&client).await;
        pass(ms(1100)).await;
        drop(guard);
        assert_eq!(client.shutdown(TTL).await, 0);
        let mut troubles = recorder.words();
        troubles.retain(|event| matches!(event, Trouble(..)));
        assert_eq!(troubles, [Trouble(n(), call, Some(n()), Some("scripted"))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_is_told_with_its_length() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let recorder = EventRecorder::default();
    let client = recorder.client(&script).await;
    let guard = client.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    pass(ms(50)).await;
    // Less than the lease: the lock is still held.
    script.jump(ms(1000));
    pass(TTL / 5).await;
    assert!(guard.is_held());
    let mut words = recorder.words();
    words.retain(|event| matches!(event, Jumped(_)));
    assert_eq!(words, [Jumped(ms(1000))]);
}

/// Callers come and go at every moment of a life, whatever the server does. The events of each name add up.
#[tokio::test(start_paused = true)]
async fn every_request_has_one_answer_every_grant_one_end() {
    let mut seen = BTreeMap::new();
    for server in 0..4 {
        let script = Script::new(
            [busy(), (ms(20), granted(TTL).1), unknown(ms(30)), granted(TTL), (ms(5), busy().1)],
            [held(TTL), unknown(ms(40)), (ms(1), Ok(Renewal::Lost(LossReason::Gone))), held(TTL)],
            [released(), unknown(ms(20)), released()],
        );
        match server {
            0 => script.attempts.lock().unwrap().extend([granted(TTL)]),
            1 => script.panics_in("attempt"),
            2 => script.panics_in("renew"),
            _ => script.panics_in("release"),
        }
        let recorder = EventRecorder::default();
        let client = recorder.client(&script).await;
        for at in 0..120 {
            let name = format!("n{at}");
            let waiting = waits(&client, &name);
            let looking = client.lock(&name).ttl(TTL).build().unwrap();
            let looking = tokio::spawn(async move { looking.try_acquire().await });
            pass(ms(at)).await;
            waiting.abort();
            looking.abort();
        }
        let holder = waits(&client, "held");
        pass(TTL * 2).await;
        drop(holder);
        assert_eq!(client.shutdown(TTL * 4).await, 0);
        let mut by_name: BTreeMap<String, Vec<RecordedEvent>> = BTreeMap::new();
        for event in recorder.words() {
            by_name.entry(event.name().unwrap().to_owned()).or_default().push(event);
        }
        for (name, words) in by_name {
            for (kind, count) in adds_up(&name, &words) {
                *seen.entry(kind).or_insert(0) += count;
            }
        }
    }
    for kind in ["asked", "granted", "not granted", "lost", "ended"] {
        assert!(seen[kind] > 1, "the test has covered too little: {seen:?}");
    }
}

/// Counts the events of one name.
fn adds_up(name: &str, words: &[RecordedEvent]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut held: Vec<(Owner, bool)> = Vec::new();
    let mut waiting = 0_usize;
    for event in words {
        let kind = match event {
            Asked(_) => {
                waiting += 1;
                "asked"
            }
            Granted(_, owner, ..) => {
                waiting = waiting.checked_sub(1).expect("a grant follows a request");
                held.push((*owner, false));
                "granted"
            }
            NotGranted(..) => {
                waiting = waiting.checked_sub(1).expect("a refusal follows a request");
                "not granted"
            }
            Lost(_, owner, ..) => {
                let hold =
                    held.iter_mut().find(|(holder, _)| holder == owner).expect("a lost lock was granted");
                assert!(!std::mem::replace(&mut hold.1, true), "{name}: lost twice: {words:?}");
                "lost"
            }
            Ended(_, owner, ending, _) => {
                let at = held
                    .iter()
                    .position(|(holder, _)| holder == owner)
                    .expect("a lock that ends was granted");
                let (_, lost) = held.swap_remove(at);
                assert!(!lost || *ending == Ending::Expired, "{name}: {words:?}");
                "ended"
            }
            Renewed(..) | Trouble(..) | Jumped(_) => continue,
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    assert_eq!((waiting, &held[..]), (0, &[][..]), "{name}: left over: {words:?}");
    counts
}
