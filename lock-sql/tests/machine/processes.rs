//! Several processes with one file.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::driver::{Attempt, Release};
use lock_test_servers::{self as servers, ChildProcess, Wait};
use tempfile::TempDir;

use super::{LIMIT, Outcome, block_on, claim, hold, hold_for, program, url};
use lock_conformance::timing::still_held;

pub(crate) fn processes_that_come_at_once_create_one_table() -> Outcome {
    // Twelve programs start, and eleven wait for the one that writes. They have a third of the ttl for that.
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

/// A process that hands a lock over to itself uses this to let other processes have their turns, and to pause only for
/// them.
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
            assert_in_time!(started.elapsed() < LIMIT, "a process waits, but no release reports it");
        }
        waiter.process().kill().unwrap();
        while round().await != Some(false) {
            assert_in_time!(started.elapsed() < LIMIT, "a release still reports a process that waited");
        }
        still_held(&held);
    });
    Ok(())
}
