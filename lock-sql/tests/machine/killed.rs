//! Processes that are killed, also in the middle of a write. Linux shows which process has which lock on a file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::timing::void;
use lock_test_servers::{Process, Wait};
use tempfile::TempDir;

use super::{LIMIT, Outcome, block_on, hold, program, url};

// Proves: holder-killed
/// Processes are killed while they hold the lock, in the middle of a statement, while they wait, or before
/// they have opened anything.
pub(crate) fn processes_killed_at_any_moment_leave_a_sound_file() -> Outcome {
    const PROCESSES: u64 = 12;
    let program = program()?;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("locks.db");
    let url = url(&file);
    let (began, mut in_writes, mut round) = (Instant::now(), 0, 0);
    while round < 4 || (in_writes == 0 && began.elapsed() < LIMIT * 3) {
        let holders: Vec<_> =
            (0..PROCESSES).map(|_| hold(&program, &url, "a", Wait::Forever, "sleep 0.01")).collect();
        for (n, holder) in holders.iter().enumerate() {
            std::thread::sleep(Duration::from_millis((n as u64 * 7 + round * 3) % 25));
            if n % 2 == 1 && stops_in_a_write(holder.process(), &file) {
                in_writes += 1;
            }
            // It may have ended already.
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
        round += 1;
    }
    let sound = block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
        let mut admin = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::query_scalar::<_, String>("PRAGMA integrity_check").fetch_one(&mut admin).await.unwrap()
    });
    assert_eq!(sound, "ok");
    println!("{in_writes} of {} were killed in a write", round * PROCESSES);
    if in_writes == 0 {
        void("no process was killed in the middle of a write");
    }
    Ok(())
}

/// Pauses the process again and again, until it is in the middle of a write to this database, and leaves it paused.
/// Returns `false` if the process ends before, or doesn't write for 300 ms.
fn stops_in_a_write(process: &Process, database: &Path) -> bool {
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until && process.ended().unwrap().is_none() {
        if process.pause().is_err() {
            return false;
        }
        if is_writing(process.id(), database) {
            return true;
        }
        process.resume().ok();
        std::thread::sleep(Duration::from_micros(300));
    }
    false
}

/// Returns whether the process has the right to write, which only one process can have: a lock on a byte of the index.
fn is_writing(process: u32, database: &Path) -> bool {
    const WRITE_LOCK: &str = "120";
    let index = format!("{}-shm", database.display());
    let Ok(index) = fs::metadata(index) else { return false };
    let inode = format!(":{}", index.ino());
    // `5: POSIX  ADVISORY  WRITE 4711 08:02:131 120 120`
    fs::read_to_string("/proc/locks").unwrap().lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "POSIX", _, "WRITE", of, file, WRITE_LOCK, _]
            if of == process.to_string() && file.ends_with(&inode))
    })
}
