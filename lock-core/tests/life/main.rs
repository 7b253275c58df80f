//! The life of a claim on a virtual clock, against a server that answers as the test says: every outcome that a real
//! server shows only rarely, at its exact time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behind;
mod events;
mod handed_over;
mod reentrant;
mod revoked;
mod scripted;
mod several;
mod told;
mod unanswered;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::driver::{Attempt, Lease, Release, Renewal};
use lock_core::{Client, Clock, Ending, ErrorKind, Guard, Lock, LossReason, Options};
use scripted::{
    Script, busy, busy_with, client, client_with, granted, granted_of_old, held, held_of_old, ms, pass,
    released, unknown,
};

const TTL: Duration = ms(3000);
const PATIENCE: Duration = ms(1000);

fn lock(client: &Client) -> Lock {
    client.lock("n").ttl(TTL).build().unwrap()
}

async fn acquired(client: &Client) -> Guard {
    lock(client).acquire().await.unwrap()
}

/// With a time limit: a virtual clock goes on for ever if nothing else happens.
async fn lost(guard: &Guard) -> LossReason {
    Clock::system().timeout(TTL * 20, guard.lost()).await.expect("the loss is told")
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_unknown_outcome_is_released_at_once_and_after_its_patience() {
    let script = Script::new([unknown(PATIENCE / 2)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let error = lock(&client).try_acquire().await.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error:?}");
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    // The attempt began at 0. The server refuses what arrives after its patience.
    assert_eq!(script.times_of("release"), [500, 1000]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_settle_an_earlier_attempt_that_is_on_its_way() {
    let script = Script::new([unknown(ms(900)), busy()], [held(TTL)], [released()]);
    let client = client(&script).await;
    let waiting = tokio::spawn({
        let lock = lock(&client);
        async move { lock.acquire().await }
    });
    pass(ms(950)).await;
    waiting.abort();
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert!(releases.len() == 2 && releases[0] < 1000 && releases[1] == 1000, "{releases:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_does_not_settle_an_earlier_attempt_that_is_on_its_way() {
    let script = Script::new([unknown(ms(100)), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    assert_eq!(acquired(&client).await.release().await, Ending::Released);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert!(releases.len() == 2 && releases[0] < 1000 && releases[1] == 1000, "{releases:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_leaves_nothing_to_release() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let client = client(&script).await;
    assert!(lock(&client).try_acquire().await.unwrap().is_none());
    assert_eq!(client.shutdown(TTL).await, 0);
    assert!(script.times_of("release").is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_looks_listens_and_looks_again_at_once() {
    let script = Script::new([busy(), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    // A release between the first attempt and the listening would go unnoticed until the next poll.
    assert_eq!(script.times_of("attempt"), [0, 1]);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_too_late_is_asked_for_again() {
    let (_, late) = granted(ms(400));
    let script = Script::new([(ms(500), late), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert!(guard.is_held());
    assert_eq!(script.times_of("attempt").len(), 2);
    // A release in between could arrive after the second attempt.
    assert!(script.times_of("release").is_empty());
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_call_less_a_margin() {
    let (_, slow) = granted(TTL);
    let script = Script::new([(ms(100), slow)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert_eq!(guard.valid_for(), TTL - TTL / 100 - ms(2) - ms(100));
}

/// A session of 300 s was proven 100 s ago. The client's clock may have run slow for all 300 s.
#[tokio::test(start_paused = true)]
async fn the_margin_is_of_the_whole_lease_and_not_of_what_is_left_of_it() {
    let (whole, age) = (Duration::from_secs(300), Duration::from_secs(100));
    let left = whole - age;
    let script = Script::new([granted_of_old(left, age)], [held_of_old(left, age)], [released()]);
    let client = client(&script).await;
    let guard = client.lock("n").ttl(whole).build().unwrap().acquire().await.unwrap();
    assert_eq!(guard.valid_for(), left - whole / 100 - ms(2) - ms(1), "as it was granted");
    assert_eq!(guard.renew(whole).await.unwrap(), left - whole / 100 - ms(2) - ms(1), "as it was renewed");
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_at_a_third_of_what_is_left() {
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
async fn renewals_that_fail_are_repeated_until_the_deadline_and_then_it_is_lost() {
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
async fn a_renewal_by_hand_takes_the_failure_of_the_one_under_way_for_its_answer() {
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

/// The process stood still while a renewal was under way. What its guard has said stays true.
#[tokio::test(start_paused = true)]
async fn a_guard_that_was_not_held_for_a_moment_is_lost() {
    let script = Script::new([granted(TTL)], [(ms(50), held(TTL * 10).1)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let (renewed, ()) = tokio::join!(guard.renew(TTL * 10), async {
        pass(ms(10)).await;
        script.jump(TTL);
        assert!(!guard.is_held());
    });
    assert_eq!(renewed.unwrap_err().kind(), ErrorKind::Lost, "although the server has prolonged it");
    assert_eq!(lost(&guard).await, LossReason::Expired);
    pass(ms(200)).await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_shorter_proof_does_not_replace_a_longer_one() {
    let script = Script::new([granted(TTL)], [held(TTL * 4), held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let certain = guard.renew(TTL * 4).await.unwrap();
    assert!(certain > TTL * 3);
    let asked = client.clock().now();
    while script.times_of("renew").len() < 2 {
        pass(ms(10)).await;
    }
    pass(ms(10)).await;
    let passed = client.clock().now().since(asked);
    assert!(guard.valid_for() + passed + ms(1) >= certain, "{:?} after {passed:?}", guard.valid_for());
}

/// A server whose clock was set back by an hour counts that hour as left.
#[tokio::test(start_paused = true)]
async fn what_is_left_beyond_what_was_asked_for_is_not_believed() {
    let hour = Duration::from_secs(3600);
    let script = Script::new([granted(hour)], [held(hour), held(hour)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    assert!(guard.valid_for() < TTL, "{:?}", guard.valid_for());
    pass(TTL * 3).await;
    let renewals = script.times_of("renew");
    assert!(renewals.len() >= 8 && renewals.len() <= 10, "{renewals:?}");
    assert!(guard.renew(TTL * 2).await.unwrap() < TTL * 2);
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

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_a_dead_server_until_the_lease_has_ended_and_goes_on_behind() {
    let script = Script::new([granted(TTL)], [held(TTL)], [unknown(PATIENCE)]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let until = guard.valid_for();
    let asked = client.clock().now();
    assert_eq!(guard.release().await, Ending::Expired);
    assert_eq!(client.clock().now().since(asked).as_millis(), until.as_millis());
    pass(ms(500)).await;
    script.releases.lock().unwrap().clear();
    script.releases.lock().unwrap().push_back(released());
    assert_eq!(client.shutdown(PATIENCE * 3).await, 0, "the release was answered in the end");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_ends_when_nothing_can_be_left() {
    let script = Script::new([granted(TTL)], [held(TTL)], [unknown(PATIENCE)]);
    let client = client(&script).await;
    drop(acquired(&client).await);
    assert_eq!(client.shutdown(TTL + PATIENCE).await, 1);
    assert_eq!(client.shutdown(TTL + PATIENCE * 2).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_expired_hold_is_no_release_in_time() {
    let script = Script::new([granted(TTL)], [held(TTL)], [(ms(1), Ok(Release::NotHeld))]);
    let client = client(&script).await;
    assert_eq!(acquired(&client).await.release().await, Ending::Expired);
}

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
async fn a_fixed_lease_ends_at_its_time_whatever_the_server_has() {
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

/// When `run` returns, nothing is left to a runtime that may end.
#[tokio::test(start_paused = true)]
async fn run_answers_when_min_hold_is_over_and_the_lock_given_back() {
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
async fn a_fixed_lease_that_ends_before_min_hold_is_invalid() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = || client.lock("n").ttl(TTL).fixed_lease();
    let error = lock().min_hold(TTL).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("min_hold (3s)"), "{error}");
    assert!(lock().min_hold(ms(2968)).build().is_err(), "less 1 % and 2 ms");
    drop(lock().min_hold(ms(2967)).build().unwrap().acquire().await.unwrap());
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(script.times_of("release"), [2967], "it is held for so long");
    client.lock("n").ttl(TTL).min_hold(TTL * 2).build().expect("this one is renewed");
}

#[tokio::test(start_paused = true)]
async fn of_a_session_that_was_proven_a_while_ago_min_hold_may_ask_for_less() {
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

/// As of a session whose last proof is a little old when a renewal asks. A holder that stands still for half of the ttl
/// keeps the lock.
#[tokio::test(start_paused = true)]
async fn more_than_half_of_the_ttl_is_certain_though_no_renewal_is_worth_all_of_it() {
    let worth = TTL / 5 * 4;
    let script = Script::new([granted(worth)], [held(worth)], [released()]);
    let guard = client(&script).await.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    for _ in 0..1000 {
        pass(TTL / 200).await;
        assert!(guard.valid_for() > TTL / 5 * 3, "{:?} of {TTL:?}", guard.valid_for());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_tells_contention_from_trouble() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let contended = client(&script).await.lock("n").ttl(TTL).wait(ms(700)).build().unwrap();
    let error = contended.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");

    let script: Arc<Script> = Script::new([unknown::<Attempt>(ms(100))], [held(TTL)], [released()]);
    let troubled = client(&script).await.lock("n").ttl(TTL).wait(ms(700)).build().unwrap();
    let error = troubled.acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer"), "{error}");
}

/// The script's server shows no holder to an inspection: the answer to an attempt has to be enough.
#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_names_the_holder_that_an_attempt_showed() {
    let there = busy_with("deploy@web-3", ms(60_000), ms(20_000));
    let script = Script::new([there], [held(TTL)], [released()]);
    let client = client(&script).await;
    let lock = |wait| client.lock("n").ttl(TTL).wait(wait).build().unwrap();
    for (wait, shown) in [
        (ms(0), "held by deploy@web-3 for 60 s, lease ends in 20 s"),
        // The last attempt was half a second ago, because nothing has happened.
        (ms(700), "held by deploy@web-3 for 60 s, lease ends in 19 s"),
    ] {
        let (lock, began) = (lock(wait), scripted::now());
        let error = lock.acquire().await.map(drop).unwrap_err();
        assert!(error.to_string().contains(shown), "{wait:?}: {error}");
        assert!(began.elapsed() <= wait + ms(2), "{wait:?}: nothing else was asked: {:?}", began.elapsed());
    }
    // A caller that waits behind another task of this process is told what that task saw.
    let (front, behind) = (lock(ms(500)), lock(ms(300)));
    let (_, behind) = tokio::join!(front.acquire(), behind.acquire());
    assert!(behind.unwrap_err().to_string().contains("deploy@web-3"));
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_put_aside_keeps_its_place_and_takes_nothing() {
    let script = Script::new([busy(), busy(), granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let (aside, behind) = (lock(&client), lock(&client));
    let mut aside = Box::pin(aside.acquire());
    // It is in front of the queue when its caller turns to something else.
    assert!(Clock::system().timeout(ms(4), &mut aside).await.is_none());
    let behind = tokio::spawn(async move { behind.acquire().await });
    let asked = script.times_of("attempt").len();
    pass(ms(8000)).await;
    assert_eq!(script.times_of("attempt").len(), asked, "a caller that does not come is granted nothing");
    assert!(!behind.is_finished());
    drop(aside);
    assert!(behind.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_server_slower_than_the_lease_is_trouble_and_not_waited_for_in_vain() {
    let script = Script::new([(ms(60), granted(ms(50)).1)], [held(ms(50))], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(ms(50)).wait(ms(500)).build().unwrap();
    for outcome in [lock.try_acquire().await.map(drop), lock.acquire().await.map(drop)] {
        let error = outcome.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("a longer ttl"), "{error}");
    }
    assert_eq!(client.shutdown(ms(1000)).await, 0);
    assert_eq!(script.times_of("release").len(), 2, "each claim releases what it may have");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_among_busy_neighbours_is_contention() {
    let script = Script::new([(ms(3), granted(TTL).1)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let mut neighbours = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let lock = lock(&client);
        neighbours.spawn(async move {
            loop {
                let _: Ending = lock.acquire().await.unwrap().release().await;
            }
        });
    }
    pass(ms(50)).await;
    for wait in 20..60 {
        let lock = client.lock("n").ttl(TTL).wait(ms(wait)).build().unwrap();
        let error = lock.acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn protect_looks_at_the_clock_after_the_work_too() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    let outcome = guard.protect(async { script.jump(TTL * 2) }).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost, "it was not held until the work was done");
}

/// The suspend comes at every phase of the watch's rounds.
#[test]
fn a_suspend_is_noticed_in_every_phase_of_the_watch() {
    for phase in (0..3000).step_by(30) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ttl = TTL * 20;
            let script = Script::new([granted(ttl)], [held(ttl)], [released()]);
            let client = client(&script).await;
            let guard = client.lock("n").ttl(ttl).fixed_lease().build().unwrap().acquire().await.unwrap();
            pass(ms(9000 + phase)).await;
            script.jump(ttl);
            let asked = client.clock().now();
            lost(&guard).await;
            let late = client.clock().now().since(asked);
            assert!(late <= ms(1001), "told after {late:?}, {phase} ms into a round");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_within_a_tenth_of_the_ttl() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let guard = acquired(&client).await;
    pass(ms(100)).await;
    script.jump(TTL * 2);
    assert!(!guard.is_held(), "the first call after the suspend is right");
    let asked = client.clock().now();
    assert_eq!(lost(&guard).await, LossReason::Expired);
    assert!(client.clock().now().since(asked) <= TTL / 5, "{:?}", client.clock().now().since(asked));
}

/// With clock and randomness under control, a run can be repeated exactly.
#[test]
fn same_seed_same_trace() {
    let run = || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let events = Arc::new(Mutex::new(Vec::new()));
            let seen = events.clone();
            let script = Script::new(
                [busy(), unknown(ms(30)), busy(), busy(), granted(TTL)],
                [held(TTL), unknown(ms(40)), held(TTL)],
                [unknown(ms(20)), released()],
            );
            let options =
                Options::default().observer(move |event| seen.lock().unwrap().push(format!("{event:?}")));
            let client = client_with(&script, options).await;
            for _ in 0..3 {
                let guard = acquired(&client).await;
                pass(ms(2500)).await;
                let _: Ending = guard.release().await;
            }
            client.shutdown(TTL * 3).await;
            let events = events.lock().unwrap().clone();
            (script.log(), events)
        })
    };
    let (calls, events) = run();
    assert!(calls.len() > 10 && events.len() > 10);
    assert_eq!((calls, events), run());
}
