//! The database, its log, or the log's index are removed or replaced while processes have them open.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::driver::{Attempt, Claim, LossReason, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind};
use lock_test_servers::{ChildProcess, Ended, Program, Wait};
use tempfile::TempDir;

use super::{LIMIT, Outcome, block_on, claim, hold, hold_for, program, url};

/// A folder with a database, and with a file that the holder's command makes when it ends.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: TempDir::new().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    fn url(&self) -> String {
        url(&self.file())
    }

    fn ended(&self) -> PathBuf {
        self.folder.path().join("ended")
    }

    /// Returns a command that takes some time.
    fn work(&self) -> String {
        format!("echo held; sleep 1.5; touch {}", self.ended().display())
    }

    fn change(&self, suffixes: &[&str], change: Change) {
        for suffix in suffixes {
            change(&beside(&self.file(), suffix));
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

type Change = fn(&Path);

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn rename(path: &Path) {
    fs::rename(path, beside(path, ".old")).unwrap();
}

/// Puts a copy in its place, as a restored backup does.
fn replace(path: &Path) {
    let copy = beside(path, ".copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

const LOG: &[&[&str]] = &[&["-wal", "-shm"], &["-wal"], &["-shm"]];

// Proves: sqlite-log, older-data
/// A holder that renews notices it, and takes its lock along. Processes that come meanwhile, or waited before, are not
/// granted the lock before the holder's work has ended.
pub(crate) fn a_log_that_was_removed_makes_no_second_holder() -> Outcome {
    let program = program()?;
    for suffixes in LOG {
        for change in [remove, rename, replace] {
            let place = Place::new();
            let url = place.url();
            let holder = hold(&program, &url, "a", Wait::No, &place.work());
            assert_eq!(holder.line(LIMIT).unwrap(), "held");
            let script = format!("test -e {} && echo after", place.ended().display());
            let waiter = hold(&program, &url, "a", Wait::Forever, &script);
            block_on(async {
                place.change(suffixes, change);
                let client = opened(&url).await;
                let mut second = claim(&client, "a");
                assert!(is_granted(&mut second, LIMIT).await, "{suffixes:?}: free after the release");
                assert!(place.ended().exists(), "{suffixes:?}: two holders");
                assert!(matches!(second.release().await.unwrap(), Release::Released { .. }), "{suffixes:?}");
            });
            for process in [holder, waiter] {
                let told = process.finish(LIMIT).unwrap();
                assert_eq!(told.ended, Ended::Status(0), "{suffixes:?}: {}", told.stderr);
            }
        }
    }
    Ok(())
}

// Proves: sqlite-log, older-data
/// The holder's files stay in use as long as it has them open. Its release frees the lock in the files that
/// are there then.
pub(crate) fn a_silent_holder_keeps_its_lock_without_log() -> Outcome {
    let program = program()?;
    for suffixes in LOG {
        for change in [remove, rename, replace] {
            let place = Place::new();
            block_on(async {
                let client = opened(&place.url()).await;
                let mut holder = claim(&client, "a");
                assert!(is_granted(&mut holder, LIMIT).await);
                place.change(suffixes, change);
                is_refused(&program, &place, "locks.db-");
                assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }), "{suffixes:?}");
                runs(&program, &place);
            });
        }
    }
    Ok(())
}

// Proves: sqlite-database, older-data
/// The rows are lost with the file. No process is granted a lock in the next one before the holder could know
/// that, and the holder's release does not claim what it can't prove.
pub(crate) fn a_removed_database_is_used_until_its_holder_knows() -> Outcome {
    let program = program()?;
    for suffixes in [&["", "-wal", "-shm"][..], &[""]] {
        for releases in [true, false] {
            let place = Place::new();
            block_on(async {
                let client = opened(&place.url()).await;
                let mut holder = claim(&client, "a");
                assert!(is_granted(&mut holder, LIMIT).await);
                place.change(suffixes, remove);
                is_refused(&program, &place, "locks.db was removed");
                match releases {
                    true => assert_eq!(holder.release().await.unwrap(), Release::NotHeld, "{suffixes:?}"),
                    false => {
                        let lost = Renewal::Lost(LossReason::Gone);
                        assert_eq!(holder.renew(LIMIT).await.unwrap(), lost, "{suffixes:?}");
                    }
                }
                runs(&program, &place);
            });
        }
        let place = Place::new();
        let holder = hold_for(LIMIT, &program, &place.url(), "a", Wait::No, &place.work());
        assert_eq!(holder.line(LIMIT).unwrap(), "held");
        place.change(suffixes, remove);
        let told = holder.finish(LIMIT).unwrap();
        assert_eq!(told.ended, Ended::Status(74), "{suffixes:?}: {}", told.stderr);
    }
    Ok(())
}

// Proves: sqlite-log, older-data
/// The restored log is the one that the holder has open.
pub(crate) fn a_restored_log_is_used_on() -> Outcome {
    let program = program()?;
    let place = Place::new();
    block_on(async {
        let client = opened(&place.url()).await;
        let mut holder = claim(&client, "a");
        assert!(is_granted(&mut holder, LIMIT).await);
        place.change(LOG[0], rename);
        is_refused(&program, &place, "locks.db-wal was removed");
        for suffix in LOG[0] {
            let path = beside(&place.file(), suffix);
            assert!(!path.exists(), "a process that is refused makes no log of its own");
            fs::rename(beside(&path, ".old"), path).unwrap();
        }
        assert!(matches!(holder.renew(LIMIT).await.unwrap(), Renewal::Held { .. }));
        let mut second = hold(&program, &place.url(), "a", Wait::No, "echo held");
        assert!(second.line(LIMIT).is_err(), "two holders");
        second = hold(&program, &place.url(), "b", Wait::No, "echo held");
        assert_eq!(second.line(LIMIT).unwrap(), "held");
    });
    Ok(())
}

// Proves: sqlite-overwritten, older-data
/// The file is the same, so its users do not notice it. But no other process can read the log.
pub(crate) fn a_log_that_was_emptied_makes_no_second_holder() -> Outcome {
    let program = program()?;
    let place = Place::new();
    let holder = hold(&program, &place.url(), "a", Wait::No, &place.work());
    assert_eq!(holder.line(LIMIT).unwrap(), "held");
    fs::File::options().write(true).open(beside(&place.file(), "-wal")).unwrap().set_len(0).unwrap();
    while !place.ended().exists() && holder.process().ended().unwrap().is_none() {
        let second = hold(&program, &format!("{}?patience=300ms", place.url()), "a", Wait::No, "echo held");
        let line = second.line(LIMIT);
        assert!(line.is_err() || place.ended().exists(), "two holders");
    }
    Ok(())
}

/// A fork has everything open that its parent had. The last connection removes the log when it is closed, and
/// that must not pass for a log that was removed under a holder.
#[cfg(target_os = "linux")]
pub(crate) fn a_fork_uses_no_files() -> Outcome {
    let program = program()?;
    let place = Place::new();
    block_on(async {
        let client = opened(&place.url()).await;
        let mut holder = claim(&client, "a");
        assert!(is_granted(&mut holder, LIMIT).await);
        if let fork::Fork::Child = fork::fork().unwrap() {
            std::thread::sleep(Duration::from_secs(5));
            std::process::abort();
        }
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        drop((holder, client));
        let began = Instant::now();
        while beside(&place.file(), "-wal").exists() {
            assert_in_time!(began.elapsed() < LIMIT, "the connections are not closed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        runs(&program, &place);
        assert_in_time!(began.elapsed() < Duration::from_secs(5), "the fork has ended meanwhile");
    });
    Ok(())
}

/// An index outlives its log for as long as a process has it open, even a paused process.
pub(crate) fn an_index_without_its_log_is_ignored() -> Outcome {
    let program = program()?;
    let place = Place::new();
    let url = place.url();
    let holder = hold(&program, &url, "a", Wait::No, "echo held; sleep 60");
    assert_eq!(holder.line(LIMIT).unwrap(), "held");
    holder.process().pause().unwrap();
    place.change(&["-wal"], remove);
    block_on(async {
        let refused = lock_sql::sqlite::connect(&url).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{refused}");
        assert!(refused.message().contains("locks.db-wal was removed"), "{refused}");
        holder.process().kill().unwrap();
        let client = opened(&url).await;
        let mut second = claim(&client, "a");
        assert!(is_granted(&mut second, LIMIT).await, "free after a ttl");
        assert!(matches!(second.renew(LIMIT).await.unwrap(), Renewal::Held { .. }));
    });
    Ok(())
}

/// Asserts that another process runs nothing, and is told the reason.
fn is_refused(program: &Program, place: &Place, why: &str) {
    let url = format!("{}?patience=300ms", place.url());
    let told = hold(program, &url, "a", Wait::No, "true").finish(LIMIT).unwrap();
    assert_eq!(told.ended, Ended::Status(69), "{}", told.stderr);
    assert!(told.stderr.contains(why) && told.stderr.contains("other processes"), "{}", told.stderr);
}

/// Asserts that another process is granted the lock.
fn runs(program: &Program, place: &Place) {
    let told = hold(program, &place.url(), "a", Wait::No, "true").finish(LIMIT).unwrap();
    assert_eq!(told.ended, Ended::Status(0), "{}", told.stderr);
}

/// Opens a client, as soon as that succeeds: other processes may use files that are no longer there.
async fn opened(url: &str) -> Client {
    let started = Instant::now();
    loop {
        match lock_sql::sqlite::connect(url).await {
            Ok(client) => return client,
            Err(e) => assert_in_time!(started.elapsed() < LIMIT, "{e}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn is_granted(claim: &mut Box<dyn Claim>, limit: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Ok(Attempt::Granted(_)) = claim.attempt().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
