//! At any moment, at most one guard of a name reports that it is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::case::{Case, case};
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, is_full_run, ms, waits};
use crate::timing::{Answered, Returned, released, still_held};

pub(crate) const CASES: &[Case] = &[
    case!(a_held_lock_is_not_given_to_another, "one-holder", [B15, B26]),
    case!(two_tasks_of_one_client_exclude_each_other, "not-reentrant", [B26]),
    case!(a_guard_can_move_between_threads, "guard-moves", [B26]),
    case!(one_winner_of_many_in_the_same_moment, "one-holder", [B34]; load Heavy),
    case!(an_unprotected_counter_survives_a_storm, "one-holder", [B34, B4, B29]; load Heavy),
];

async fn a_held_lock_is_not_given_to_another(s: Setting) {
    let name = s.name();
    let guard = s.hold(&name).await;
    for _ in 0..3 {
        s.is_kept(&guard, &name).await;
    }
    s.freed(guard).await;
}

async fn two_tasks_of_one_client_exclude_each_other(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.hold_long_by(&client, &name).await;
    let lock = s.lock(&client, &name).built();
    assert!(lock.try_acquire().answered().await.is_none(), "the client is not the owner");
    let waiter = waits(lock);
    tokio::time::sleep(ms(30)).await;
    assert!(!waiter.is_finished());
    drop(guard);
    drop(waiter.await.returned().expect("granted after the release"));
}

async fn a_guard_can_move_between_threads(s: Setting) {
    let guard = s.hold(&s.name()).await;
    let guard = on_a_thread(move || {
        still_held(&guard);
        guard
    });
    released(guard.await).await;
}

/// On a slow server there are fewer rounds, but at least these.
const LEAST_ROUNDS: usize = 5;
const LONG_ENOUGH: Duration = Duration::from_secs(8);
/// The rounds after these have a tenth of the contenders: a million attempts take a slow server an hour.
const CROWDED_ROUNDS: usize = 20;
const CROWD: usize = 1000;

async fn one_winner_of_many_in_the_same_moment(s: Setting) {
    let what = format!("rounds, {CROWDED_ROUNDS} of {CROWD} contenders, the others of {}", CROWD / 10);
    let rounds = s.size(&what, CROWDED_ROUNDS, 1000);
    let began = Instant::now();
    let client = [s.client().await, s.client().await, s.client().await];
    let mut last = None;
    let name = s.name();
    for round in 0..rounds {
        if round >= LEAST_ROUNDS && began.elapsed() > LONG_ENOUGH && !is_full_run() {
            println!("{}: {round} of them in {:.0?}", s.harness.name(), began.elapsed());
            break;
        }
        let crowd = if round < CROWDED_ROUNDS { CROWD } else { CROWD / 10 };
        let start = Arc::new(Barrier::new(crowd));
        let mut contenders = JoinSet::new();
        for n in 0..crowd {
            let lock = client[n % 3].lock(name.as_str()).ttl(s.ttl() * 20).built();
            let start = start.clone();
            contenders.spawn(async move {
                start.wait().await;
                lock.try_acquire().await.expect("contention is not an error")
            });
        }
        let winners: Vec<_> = contenders.join_all().await.into_iter().flatten().collect();
        let [winner] = <[_; 1]>::try_from(winners).expect("one winner, whose guard lives");
        assert!(last < Some(winner.token()), "{last:?}, then {}", winner.token());
        last = Some(winner.token());
        released(winner).await;
    }
}

/// Sixteen tasks of four clients.
async fn an_unprotected_counter_survives_a_storm(s: Setting) {
    count(&s, 4, 4, 25).await;
}

/// Tasks of some clients read, wait, and write back a number that nothing but the lock protects. Their tokens rise.
pub(super) async fn count(s: &Setting, clients: usize, tasks_each: usize, turns: usize) {
    let name = s.name();
    let (counter, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU32::new(0)));
    let last_token = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let client = s.client().await;
        for _ in 0..tasks_each {
            let lock = client.lock(name.as_str()).ttl(s.long()).built();
            let (counter, inside, last_token) = (counter.clone(), inside.clone(), last_token.clone());
            tasks.spawn(async move {
                for _ in 0..turns {
                    let guard = lock.acquire().answered().await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    let token = guard.token().get();
                    let before = last_token.swap(token, Ordering::SeqCst);
                    assert!(before < token, "token {token} after {before}");
                    let seen = counter.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    counter.store(seen + 1, Ordering::SeqCst);
                    still_held(&guard);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    released(guard).await;
                }
            });
        }
    }
    tasks.join_all().await;
    assert_eq!(counter.load(Ordering::SeqCst), clients * tasks_each * turns);
    assert!(s.is_free(&name).await);
}
