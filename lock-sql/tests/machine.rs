//! What takes a machine to try: time namespaces, disks that are full or read-only, processes that are killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use lock_conformance::claims::{self, Terms};
use lock_conformance::servers::{self, Holder, Program, Wait};
use lock_conformance::{assert_in_time, rules};
use lock_core::driver::{Attempt, Claim, Release, Waits};
use lock_core::{Client, ErrorKind};
use tempfile::TempDir;

/// Why a test can't be run here.
type NotRun = String;

type Outcome = Result<(), NotRun>;

type Named = (&'static str, fn() -> Outcome);

const TESTS: &[Named] = &[
    ("a_time_namespace_changes_no_lease", a_time_namespace_changes_no_lease),
    ("a_full_disk_grants_nothing_and_is_survived", a_full_disk_grants_nothing_and_is_survived),
    ("a_read_only_disk_is_said_to_be_one", a_read_only_disk_is_said_to_be_one),
    ("processes_killed_at_any_moment_leave_a_sound_file", processes_killed_at_any_moment_leave_a_sound_file),
    ("a_release_knows_whether_another_process_waits", a_release_knows_whether_another_process_waits),
    ("processes_that_come_at_once_create_one_table", processes_that_come_at_once_create_one_table),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, rules::judged("lock-sql", TESTS.iter().copied())).exit_code()
}

const LIMIT: Duration = Duration::from_secs(20);

fn program() -> Result<Program, NotRun> {
    Program::find().map_err(|absence| absence.to_string())
}

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn run(command: &[&str]) -> Result<Output, NotRun> {
    let not_run = |e: std::io::Error| format!("{} can't be run: {e}", command[0]);
    Command::new(command[0]).args(&command[1..]).output().map_err(not_run)
}

/// What needs rights that this user may not have.
fn rights(command: &[&str]) -> Result<String, NotRun> {
    let output = run(command)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn hold(program: &Program, url: &str, name: &str, wait: Wait, script: &str) -> Holder {
    hold_for(Duration::from_secs(1), program, url, name, wait, script)
}

fn hold_for(ttl: Duration, program: &Program, url: &str, name: &str, wait: Wait, script: &str) -> Holder {
    let command = servers::Command { on: url, name, ttl, wait, run: &["sh", "-c", script] };
    program.run(&command).unwrap()
}

/// RULE j1: the boot id is the same in there, and the clock is not.
fn a_time_namespace_changes_no_lease() -> Outcome {
    program()?;
    let lock = lock_path()?;
    // Ahead: all leases of the others look over. Behind: those of its own do, to the others.
    for offset in ["100000", "-100"] {
        let inside = ["unshare", "--time", "--boottime", offset, "--"];
        rights(&[&inside[..], &["true"]].concat())?;
        let uptime = rights(&[&inside[..], &["cat", "/proc/uptime"]].concat())?;
        assert_ne!(uptime.split('.').next(), fs::read_to_string("/proc/uptime").unwrap().split('.').next());
        let folder = TempDir::new().unwrap();
        let url = url(&folder.path().join("locks.db"));
        let try_it = [lock.as_str(), "run", "--on", &url, "--name", "a", "--no-wait", "--", "true"];
        let in_there = [&inside[..], &try_it].concat();
        let client = block_on(async {
            let client = lock_sql::sqlite::connect(&url).await.unwrap();
            let lock = client.lock("a").ttl(LIMIT).build().unwrap();
            let guard = lock.acquire().await.unwrap();
            assert_eq!(run(&in_there)?.status.code(), Some(75), "held outside, {offset} s");
            assert_eq!(guard.release().await, lock_core::Ending::Released);
            assert_eq!(run(&in_there)?.status.code(), Some(0), "free");
            Ok::<_, NotRun>(lock)
        })?;
        drop(client);
        let hold = [
            &inside[..],
            &[lock.as_str(), "run", "--on", &url, "--name", "a", "--", "sh", "-c", "echo held; sleep 60"],
        ];
        let mut held = Command::new("unshare");
        held.args(&hold.concat()[1..]).stdout(std::process::Stdio::piped());
        let mut holder = held.spawn().unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
        let tried = run(&try_it);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(tried?.status.code(), Some(75), "held inside, {offset} s");
    }
    Ok(())
}

fn lock_path() -> Result<String, NotRun> {
    let this = std::env::current_exe().unwrap();
    let beside = this.parent().and_then(Path::parent).unwrap().join("lock");
    let named = std::env::var_os("LOCK_BIN").map(PathBuf::from);
    Ok(named.unwrap_or(beside).display().to_string())
}

/// A small disk of a test's own.
struct Disk(TempDir);

impl Disk {
    fn new() -> Result<Disk, NotRun> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().display().to_string();
        rights(&["mount", "-t", "tmpfs", "-o", "size=512k", "lock-sql-test", &path])?;
        Ok(Disk(folder))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut filling = fs::File::create(self.0.path().join("filling")).unwrap();
        while std::io::Write::write_all(&mut filling, &[1; 512]).is_ok() {}
    }

    fn drain(&self) {
        fs::remove_file(self.0.path().join("filling")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = self.0.path().display().to_string();
        run(&["umount", "--lazy", &path]).ok();
    }
}

fn a_full_disk_grants_nothing_and_is_survived() -> Outcome {
    let disk = Disk::new()?;
    block_on(async {
        let client = lock_sql::sqlite::connect(&url(&disk.file())).await.unwrap();
        disk.fill();
        // The log has no room for a row with a long label; it may have for others.
        let mut refused = None;
        for n in 0..200 {
            let lock = client.lock(format!("{n}-{}", "x".repeat(500))).ttl(LIMIT).build().unwrap();
            match lock.try_acquire().await {
                Ok(guard) => std::mem::forget(guard.expect("nobody else is here")),
                Err(e) => {
                    refused = Some((e, lock));
                    break;
                }
            }
        }
        let (error, lock) = refused.expect("a full disk takes no more");
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert!(error.message().contains("disk is full"), "{error}");
        assert!(lock.inspect().await.unwrap().holder.is_none(), "what was refused is not there");
        let fresh = disk.0.path().join("fresh.db");
        let error = lock_sql::sqlite::connect(&url(&fresh)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        disk.drain();
        assert!(lock.try_acquire().await.unwrap().is_some(), "there is room again");
        client.shutdown(Duration::from_secs(1)).await;
    });
    Ok(())
}

fn a_read_only_disk_is_said_to_be_one() -> Outcome {
    let disk = Disk::new()?;
    block_on(async { lock_sql::sqlite::connect(&url(&disk.file())).await.map(drop).unwrap() });
    rights(&["mount", "-o", "remount,ro", &disk.0.path().display().to_string()])?;
    let error = block_on(async {
        let client = lock_sql::sqlite::connect(&url(&disk.file())).await?;
        client.lock("a").build()?.try_acquire().await
    });
    let error = error.expect_err("it can't be written");
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    Ok(())
}

/// With the lock in hand, in the middle of a statement, while they wait, before they have opened anything.
fn processes_killed_at_any_moment_leave_a_sound_file() -> Outcome {
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

fn processes_that_come_at_once_create_one_table() -> Outcome {
    // Twelve programs start, and eleven wait for whoever writes: a third of the ttl is all the time that they have.
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
fn a_release_knows_whether_another_process_waits() -> Outcome {
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
            assert_in_time!(started.elapsed() < LIMIT, "a process waits, and nobody knows");
        }
        waiter.process().kill().unwrap();
        while round().await != Some(false) {
            assert_in_time!(started.elapsed() < LIMIT, "nobody waits any more");
        }
        held.check().expect("held");
    });
    Ok(())
}

fn claim(client: &Client, name: &str) -> Box<dyn Claim> {
    let patience = Duration::from_secs(2);
    claims::claim(client, name, Terms { ttl: LIMIT, patience, waits: Waits::No, label: "a test" })
}
