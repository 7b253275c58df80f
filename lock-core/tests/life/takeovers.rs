//! A lock goes from one task to the next one of the same client: in one request, where the server can, and without an
//! orphan whatever happens on the way.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Grant, Release, Takeover, Wakes};
use lock_core::{Client, Clock, Effect, Ending, Error, ErrorKind, FencingToken, Guard, Period, Result};
use tokio::task::JoinHandle;

use crate::scripted::{Script, Step, busy, client, granted, held, ms, pass, released, succeeded, unknown};
use crate::{PATIENCE, TTL, acquired, lock};

/// The number of grants that a client has in a row before it releases the lock for other clients.
const MOST_IN_A_ROW: usize = 8;

/// A server that grants what it is asked for, and answers takeovers as the test says.
async fn server(takeovers: impl IntoIterator<Item = Step<Takeover>>) -> (Arc<Script>, Client) {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    script.takeovers.lock().unwrap().extend(takeovers);
    let client = client(&script).await;
    (script, client)
}

/// A task that has begun to wait.
async fn waiter(client: &Client) -> JoinHandle<Result<Guard>> {
    let lock = lock(client);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pass(ms(1)).await;
    waiting
}

/// Waits until it has the lock. With a time limit: a virtual clock stands still if nothing else happens.
async fn has_it(waiting: JoinHandle<Result<Guard>>) -> Guard {
    let outcome = Clock::system().timeout(TTL * 20, waiting).await.expect("the lock comes to it");
    outcome.unwrap().unwrap()
}

fn calls(script: &Script) -> Vec<String> {
    let log = script.log();
    let calls = log.into_iter().map(|(_, what)| what.split(' ').next().unwrap_or_default().to_owned());
    calls.filter(|what| what != "listen" && what != "watch").collect()
}

#[tokio::test(start_paused = true)]
async fn a_release_and_the_next_grant_are_one_request() {
    let (script, client) = server([succeeded(TTL, Some(false))]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    pass(ms(20)).await;
    assert_eq!(first.release().await, Ending::Released);
    let second = has_it(waiting).await;
    assert_eq!((first_token(&second), calls(&script)), (8, vec!["attempt".into(), "take_over".into()]));
    // Its lease began when it was asked for.
    let valid = second.valid_for();
    assert!(valid > TTL / 10 * 9 && valid < TTL, "{valid:?}");
    assert_eq!(second.release().await, Ending::Released);
    assert_eq!(calls(&script), ["attempt", "take_over", "release"], "no task waits: it is free");
}

fn first_token(guard: &Guard) -> u64 {
    guard.token().get()
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_hands_over_too() {
    let (script, client) = server([succeeded(TTL, Some(false))]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    drop(first);
    drop(has_it(waiting).await);
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(calls(&script), ["attempt", "take_over", "release"]);
}

/// A lock that was revoked, or has ended, is not handed over: the server says so, and both do as they do elsewhere.
#[tokio::test(start_paused = true)]
async fn what_is_not_held_is_released_and_asked_for() {
    let (script, client) = server([(ms(1), Ok(Takeover::NotHeld))]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    first.release().await;
    let second = has_it(waiting).await;
    assert_eq!(first_token(&second), 7);
    let mut both = calls(&script).split_off(2);
    both.sort();
    assert_eq!(both, ["attempt", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_takeover_gets_two_requests() {
    let unsupported = Err(Error::unsupported("no"));
    let (script, client) = server([(ms(1), unsupported)]).await;
    script.panics_in("nothing");
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    assert_eq!(first.release().await, Ending::Released);
    assert_eq!(first_token(&has_it(waiting).await), 7);
}

/// The request may have been done, and may still be done: the one owner releases, and the other attempts
/// again. When both are gone, the second one releases once more, after the request can be done no more.
#[tokio::test(start_paused = true)]
async fn a_hand_over_of_unknown_outcome_is_settled() {
    let (script, client) = server([unknown(ms(100))]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    let asked = now(&client);
    assert_eq!(first.release().await, Ending::Released);
    let second = has_it(waiting).await;
    assert_eq!(second.release().await, Ending::Released);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert_eq!(releases.len(), 3, "{releases:?}");
    assert_eq!(releases[0], asked + 100, "of the first owner, at once");
    assert!(releases[2] >= asked + PATIENCE.as_millis() as u64, "of the second owner, at last: {releases:?}");
}

fn now(client: &Client) -> u64 {
    client.clock().now().since_origin().as_millis() as u64
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_during_the_request_leaves_nothing() {
    for outcome in [(ms(100), succeeded(TTL, None).1), unknown(ms(100))] {
        let is_unknown = outcome.1.is_err();
        let (script, client) = server([outcome]).await;
        let first = acquired(&client).await;
        let waiting = waiter(&client).await;
        let asked = now(&client);
        drop(first);
        pass(ms(50)).await;
        waiting.abort();
        assert_eq!(client.shutdown(TTL * 2).await, 0);
        let releases = script.times_of("release");
        let last = if is_unknown { asked + PATIENCE.as_millis() as u64 } else { asked + 100 };
        assert!(releases.last().is_some_and(|at| (last..last + 50).contains(at)), "{releases:?}, {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_went_before_is_asked_for_nothing() {
    let (script, client) = server([succeeded(TTL, None)]).await;
    let first = acquired(&client).await;
    let gone = waiter(&client).await;
    let stays = waiter(&client).await;
    gone.abort();
    pass(ms(1)).await;
    drop(first);
    drop(has_it(stays).await);
    assert_eq!(client.shutdown(TTL).await, 0);
    assert_eq!(calls(&script), ["attempt", "take_over", "release"]);
}

/// Tasks that wait while the lock goes through all of their hands.
async fn hands(client: &Client, tasks: usize, hold: Duration) {
    let mut waiting = Vec::new();
    for _ in 0..tasks {
        let lock = lock(client);
        waiting.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            pass(hold).await;
            guard.release().await
        }));
    }
    for task in waiting {
        assert_eq!(task.await.unwrap(), Ending::Released);
    }
}

// Proves: even-turns
#[tokio::test(start_paused = true)]
async fn a_row_of_hand_overs_is_bounded() {
    for others in [None, Some(false), Some(true)] {
        let (script, client) = server([succeeded(TTL, others)]).await;
        hands(&client, 3 * MOST_IN_A_ROW, ms(0)).await;
        let row = |call: &str| calls(&script).into_iter().filter(|what| what == call).count();
        assert_eq!((row("attempt"), row("release")), (3, 3), "{others:?}");
        assert_eq!(row("take_over"), 3 * (MOST_IN_A_ROW - 1));
    }
}

// Proves: even-turns
/// A row of others ends in one wake-up, as its own did. So it owes nothing after that one.
#[tokio::test(start_paused = true)]
async fn a_client_that_let_others_pass_attempts_afterwards() {
    let others = Some(true);
    let released = (ms(1), Ok(Release::Released { others }));
    let script = Script::new([granted(TTL), busy(), granted(TTL)], [held(TTL)], [released]);
    script.takeovers.lock().unwrap().push_back(succeeded(TTL, others));
    script.wakes.set(Wakes::Pushed).unwrap();
    let client = client(&script).await;
    let their_row = async {
        while script.times_of("attempt").len() < 2 {
            pass(ms(1)).await;
        }
        pass(ms(20)).await;
        script.change.notify_one();
        now(&client)
    };
    let ((), row_ends) = tokio::join!(hands(&client, MOST_IN_A_ROW + 1, ms(0)), their_row);
    let attempts = script.times_of("attempt");
    let own_row_ended = script.times_of("release")[0];
    assert!(attempts[1] >= own_row_ended + 5, "it stands back first: {attempts:?}, {own_row_ended}");
    assert_eq!(attempts[2..], [row_ends], "{attempts:?}");
}

// Proves: even-turns
#[tokio::test(start_paused = true)]
async fn a_row_is_bounded_in_time() {
    let (script, client) = server([succeeded(TTL, Some(false))]).await;
    hands(&client, 4, ms(30)).await;
    // The second one's release comes 60 ms after the first grant.
    assert_eq!(
        calls(&script),
        ["attempt", "take_over", "release", "attempt", "take_over", "release"],
        "{:?}",
        script.log()
    );
}

/// A lock that is held once per period has the server's time to ask for as well.
#[tokio::test(start_paused = true)]
async fn a_lock_once_per_period_is_not_handed_over() {
    let (script, client) = server([succeeded(TTL, None)]).await;
    script.times.lock().unwrap().push_back((ms(1), Ok(1_795_669_570_000_000)));
    let first = acquired(&client).await;
    let periodic = lock(&client).once_per(Period::every(ms(60_000)).unwrap()).unwrap();
    let waiting = tokio::spawn(async move { periodic.acquire().await.unwrap().release().await });
    pass(ms(1)).await;
    drop(first);
    waiting.await.unwrap();
    assert!(script.times_of("take_over").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_takeover_leaves_the_next_task_its_turn() {
    let (script, client) = server([succeeded(TTL, None)]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    script.panics_in("take_over");
    drop(first);
    let second = has_it(waiting).await;
    assert_eq!(first_token(&second), 7);
    drop(second);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    let releases = script.times_of("release");
    assert!(releases.last().is_some_and(|at| *at >= PATIENCE.as_millis() as u64), "settled: {releases:?}");
}

/// The answer comes when the lease that it grants is over: the lock is asked for again, and is released in the end.
#[tokio::test(start_paused = true)]
async fn a_late_takeover_answer_is_not_relied_on() {
    let late = Grant::new(FencingToken::new(8).unwrap(), ms(50));
    let answer = Ok(Takeover::Granted { grant: late, others: None });
    let (script, client) = server([(ms(100), answer)]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    drop(first);
    let second = has_it(waiting).await;
    assert_eq!(first_token(&second), 7);
    drop(second);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    assert_eq!(calls(&script), ["attempt", "take_over", "attempt", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shuts_down_meanwhile_leaves_nothing() {
    let (script, client) = server([(ms(100), succeeded(TTL, None).1)]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    drop(first);
    pass(ms(50)).await;
    let shutdown = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(TTL).await }
    });
    match waiting.await.unwrap() {
        Ok(guard) => drop(guard),
        Err(e) => assert!(matches!(e.kind(), ErrorKind::Unavailable { .. }), "{e:?}"),
    }
    assert_eq!(shutdown.await.unwrap(), 0);
    assert_eq!(calls(&script), ["attempt", "take_over", "release"]);
}

/// An attempt that may still arrive could take the lock after the hand-over, and no release would follow.
#[tokio::test(start_paused = true)]
async fn an_attempt_of_unknown_outcome_is_not_handed_over() {
    let script = Script::new([unknown(ms(100)), granted(TTL)], [held(TTL)], [released()]);
    script.takeovers.lock().unwrap().push_back(succeeded(TTL, None));
    let client = client(&script).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    drop(first);
    drop(has_it(waiting).await);
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    assert!(script.times_of("take_over").is_empty(), "{:?}", script.log());
}

#[tokio::test(start_paused = true)]
async fn a_refused_takeover_is_the_waiters_error() {
    let refused = Err(Error::rejected("not this user"));
    let (script, client) = server([(ms(1), refused)]).await;
    let first = acquired(&client).await;
    let waiting = waiter(&client).await;
    assert_eq!(first.release().await, Ending::Released);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(!matches!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied, .. }), "{error:?}");
    assert_eq!(client.shutdown(TTL * 2).await, 0);
    assert!(calls(&script).iter().filter(|what| *what == "release").count() >= 2, "both owners release");
}
