//! Several processes at one file.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::servers::{self, Wait};
use lock_core::driver::{Attempt, Release};
use tempfile::TempDir;

use super::{LIMIT, Outcome, block_on, claim, hold, hold_for, program, url};
use lock_conformance::timing::still_held;

/// With the lock in hand, in the middle of a statement, while they wait, before they have opened anything.
pub(crate) fn processes_killed_at_any_moment_leave_a_sound_file() -> Outcome {
    const PROCESSES: u64 = 12;
    let program = program()?;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("locks.db");
    let url = url(&file);
    for round in 0..4 {
        let holders: Vec<_> =
            (0..PROCESSES).map(|_| hold(&program, &url, "a", Wait::Forever, "sleep 0.01")).collect();
        for (n, holder) in holders.iter().enumerate() {
            std::thread::sleep(Duration::from_millis((n as u64 * 7 + round * 3) % 25));
            // It may have come to its end already.
            holder.process().kill().ok();
        }
        block_on(async {
            let client = lock_sql::sqlite::connect(&url).await.unwrap();
            let lock = client.lock("a").wait(Duration::from_secs(5)).build().unwrap();
            let started = Instant::now();
            drop(lock.acquire().await.expect("free after a ttl at most"));
            assert_in_time!(started.elapsed() < Duration::from_millis(1700), "{:?}", started.elapsed());
            client.shutdown(Duration::from_secs(1)).await;
        });
    }
    let sound = block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
        let mut admin = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::query_scalar::<_, String>("PRAGMA integrity_check").fetch_one(&mut admin).await.unwrap()
    });
    assert_eq!(sound, "ok");
    Ok(())
}

pub(crate) fn processes_that_come_at_once_create_one_table() -> Outcome {
    // Twelve programs start, and eleven wait for the one that writes: a third of the ttl is all the time that they have.
    const TTL: Duration = Duration::from_secs(10);
    let program = program()?;
    for _ in 0..3 {
        let folder = TempDir::new().unwrap();
        let url = url(&folder.path().join("locks.db"));
        let holders: Vec<_> =
            (0..12).map(|n| hold_for(TTL, &program, &url, &format!("n{n}"), Wait::No, "true")).collect();
        for holder in holders {
            let finished = holder.finish(LIMIT).unwrap();
            assert_eq!(finished.ended, servers::Ended::Status(0), "{}", finished.stderr);
        }
    }
    Ok(())
}

/// So that a process which hands a lock over to itself stands back for others, and only for them.
pub(crate) fn a_release_knows_whether_another_process_waits() -> Outcome {
    let program = program()?;
    let folder = TempDir::new().unwrap();
    let url = url(&folder.path().join("locks.db"));
    block_on(async {
        let client = lock_sql::sqlite::connect(&url).await.unwrap();
        let mut claim = claim(&client, "a");
        let mut others = None;
        let mut round = async || {
            assert!(matches!(claim.attempt().await.unwrap(), Attempt::Granted(_)));
            others = match claim.release().await.unwrap() {
                Release::Released { others } => others,
                Release::NotHeld => panic!("it was held"),
            };
            others
        };
        assert_eq!(round().await, Some(false));
        let held = client.lock("b").ttl(LIMIT).build().unwrap().acquire().await.unwrap();
        let waiter = hold(&program, &url, "b", Wait::Forever, "true");
        let started = Instant::now();
        while round().await == Some(false) {
            assert_in_time!(started.elapsed() < LIMIT, "a process waits, and no release knows");
        }
        waiter.process().kill().unwrap();
        while round().await != Some(false) {
            assert_in_time!(started.elapsed() < LIMIT, "no process waits any more");
        }
        still_held(&held);
    });
    Ok(())
}
