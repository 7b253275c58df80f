//! Servers in memory under tokio's paused time, as users' tests have it: with nothing said of clocks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use lock_core::{Client, Clock, Ending, ErrorKind, LossReason, Options};
use lock_memory::Memory;
use tokio::time::{Instant, advance, sleep};

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_secs(30);

/// Runs a test in tokio's paused time. Where time does not move, it would never end: after a minute it has failed.
fn in_paused_time(test: impl Future<Output = ()> + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let running = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(test);
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => running.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the paused time stands still"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(running.join().unwrap_err()),
    }
}

/// The kinds of servers, and each of them by its URL. A URL names a server of this process: `test` keeps them apart.
async fn pairs(test: &str) -> Vec<(Client, Client)> {
    let mut pairs = Vec::new();
    for memory in [Memory::new(), Memory::queue(), Memory::register()] {
        pairs.push((memory.client().await.unwrap(), memory.client().await.unwrap()));
    }
    for scheme in ["memory", "memory+queue", "memory+register"] {
        let url = format!("{scheme}://{test}");
        let client = async || lock_memory::connect(&url, Options::default()).await.unwrap();
        pairs.push((client().await, client().await));
    }
    pairs
}

// Proves: suspend
#[test]
fn a_wait_under_paused_time_ends() {
    in_paused_time(async {
        for (a, b) in pairs("a-wait").await {
            let _guard = a.lock("n").build().unwrap().acquire().await.unwrap();
            let (began, real) = (Instant::now(), std::time::Instant::now());
            let refused = b.lock("n").wait(HOUR).build().unwrap().acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused}");
            let waited = began.elapsed();
            assert!((HOUR..HOUR + Duration::from_secs(1)).contains(&waited), "{waited:?}");
            // A wait in real time would take the hour. This bound is for a machine that is busy.
            assert!(real.elapsed() < Duration::from_secs(60), "{:?}", real.elapsed());
        }
    });
}

#[test]
fn in_paused_time_a_lease_end_grants_the_waiter() {
    in_paused_time(async {
        for (a, b) in pairs("a-lease").await {
            let guard = a.lock("n").ttl(TTL).fixed_lease().build().unwrap().acquire().await.unwrap();
            let began = Instant::now();
            let next = b.lock("n").build().unwrap().acquire().await.unwrap();
            let waited = began.elapsed();
            assert!(waited >= TTL - Duration::from_secs(1) && waited < TTL * 2, "{waited:?}");
            assert!(!guard.is_held(), "two clients hold it");
            assert_eq!(guard.lost().await, LossReason::Expired);
            drop(next);
        }
    });
}

#[test]
fn work_of_an_hour_is_renewed_all_the_time() {
    in_paused_time(async {
        for (a, b) in pairs("an-hour").await {
            let lock = a.lock("n").ttl(TTL).build().unwrap();
            let other = b.lock("n").build().unwrap();
            let work = async |_: &_| {
                sleep(HOUR).await;
                other.try_acquire().await.unwrap().is_none()
            };
            assert!(lock.run(work).await.unwrap(), "another client got it meanwhile");
        }
    });
}

// Proves: suspend
#[test]
fn advancing_time_beyond_a_lease_ends_it() {
    in_paused_time(async {
        for (a, b) in pairs("moved-on").await {
            let guard = a.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
            advance(TTL * 2).await;
            assert!(!guard.is_held());
            let _next = b.lock("n").wait(TTL).build().unwrap().acquire().await.unwrap();
        }
    });
}

#[tokio::test]
async fn time_may_be_paused_after_a_client_was_opened() {
    let memory = Memory::new();
    let (a, b) = (memory.client().await.unwrap(), memory.client().await.unwrap());
    let _guard = a.lock("n").build().unwrap().acquire().await.unwrap();
    tokio::time::pause();
    let refused = b.lock("n").wait(HOUR).build().unwrap().acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused}");
}

#[test]
fn a_clock_of_the_options_is_kept() {
    in_paused_time(async {
        let (memory, own) = (Memory::new(), Clock::tokio());
        let began = own.now();
        sleep(HOUR).await;
        let client = memory.client_with(Options::default().clock(own.clone())).await.unwrap();
        assert_eq!(client.clock().now().since(began), HOUR);
    });
}

#[test]
fn a_busy_locking_task_lets_others_run() {
    const HOLDS: usize = 10_000;
    in_paused_time(async {
        for (client, _) in pairs("all-the-time").await {
            let lock = client.lock("n").build().unwrap();
            let has_run = Arc::new(AtomicBool::new(false));
            let other = has_run.clone();
            tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
            let mut holds = 0;
            while !has_run.load(Ordering::Relaxed) && holds < HOLDS {
                assert_eq!(lock.acquire().await.unwrap().release().await, Ending::Released);
                holds += 1;
            }
            assert!(holds < HOLDS, "the other task has not run");
        }
    });
}
