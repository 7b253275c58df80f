//! Calls without a server: they use a SQLite file in the user's state folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::call::{Call, Running, lock};
use super::{Case, WherePossible};

pub(crate) const CASES: &[Case] = &[
    ("without a server the locks are in a file of the user's", made),
    ("the state folder is where the system says", folders),
    ("a state folder that can't be used is said to be so", unusable),
    ("twelve processes that start in the same second take turns", storm),
    ("of twelve that start in the same second and don't wait one runs", cron),
    ("schema prints what the file has, and init finds it there", schema),
];

/// Cases for a test that root runs: only root can give a folder to another user, and be one.
pub(crate) const BY_ROOT: &[WherePossible] = &[("no locks are kept in another user's folder", others)];

/// Cases for machines that have SQLite's own program.
pub(crate) const BY_SQLITE: &[WherePossible] =
    &[("sqlite3 takes the printed schema as it is", taken_by_sqlite)];

/// Prepares a call of a user with this home folder.
fn at_home<'a>(home: &Path, args: impl IntoIterator<Item = &'a str>) -> Call {
    lock(args).env("HOME", home).without("XDG_STATE_HOME")
}

fn run_there<'a>(home: &Path, flags: &[&'a str], script: &'a str) -> Call {
    let call = ["run", "--name", "n"].iter().chain(flags).copied();
    at_home(home, call.chain(["--", "sh", "-c", script]))
}

fn made() {
    let home = TempDir::new().unwrap();
    let done = run_there(home.path(), &[], "echo ran").finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""));
    let folder = home.path().join(".local/state/onelock");
    assert!(folder.join("locks.db").is_file());
    // A user that can write the file can take the locks.
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let holder = run_there(home.path(), &[], "echo held; exec sleep 100").start();
    assert_eq!(holder.line(), "held");
    run_there(home.path(), &["--no-wait"], "true").finish().expect(75, &["held by"]);
    assert_eq!(at_home(home.path(), ["status", "n"]).finish().status, 0);
    // Another user has other locks.
    let other = TempDir::new().unwrap();
    run_there(other.path(), &["--no-wait"], "true").finish().expect(0, &[]);
}

fn folders() {
    let (home, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let there = state.path().to_str().unwrap();
    let call = || run_there(home.path(), &[], "true");
    call().env("XDG_STATE_HOME", there).finish().expect(0, &[]);
    assert!(state.path().join("onelock/locks.db").is_file());
    // A relative path does not count.
    call().env("XDG_STATE_HOME", "relative").finish().expect(0, &[]);
    assert!(home.path().join(".local/state/onelock/locks.db").is_file());
    lock(["run", "--name", "n", "--", "true"])
        .without("HOME")
        .without("XDG_STATE_HOME")
        .finish()
        .expect(64, &["--on", "$LOCK_URL"]);
}

fn unusable() {
    // Another file is in the way. Missing rights would not stop root.
    let home = TempDir::new().unwrap();
    fs::write(home.path().join(".local"), "a file").unwrap();
    run_there(home.path(), &[], "true").finish().expect(69, &[".local/state/onelock", "--on"]);
    let home = TempDir::new().unwrap();
    let folder = home.path().join(".local/state/onelock");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("locks.db"), "this is no database, but long enough to be looked at".repeat(20))
        .unwrap();
    let done = run_there(home.path(), &[], "echo ran").finish();
    done.expect(69, &["locks.db"]);
    assert_eq!(done.stdout, "");
}

fn others() -> Result<(), String> {
    const OTHER: u32 = 12_345;
    if !geteuid().is_root() {
        return Err("the test is not run by root".to_owned());
    }
    let home = TempDir::new().unwrap();
    let own = |path: &Path| chown(path, Some(OTHER), Some(OTHER)).unwrap();
    own(home.path());
    let says = format!("{} belongs to another user (uid {OTHER})", home.path().display());
    // As root with `sudo -E`.
    for args in [&["run", "--name", "n", "--", "echo", "ran"] as &[&str], &["status", "n"], &["check"]] {
        let done = at_home(home.path(), args.iter().copied()).finish();
        done.expect(69, &[&says, "HOME", "--on URL"]);
        assert_eq!(done.stdout, "", "{args:?}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing was made there");
    let folder = home.path().join(".local/state/onelock");
    fs::create_dir_all(&folder).unwrap();
    own(&folder);
    let done = run_there(home.path(), &[], "echo ran").finish();
    done.expect(69, &[&format!("{} belongs to another user", folder.display())]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was made there");
    // It is the user's own, who has it in a folder of root's.
    let state = TempDir::new().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (id, there) = (OTHER.to_string(), state.path().to_str().unwrap());
    let as_other = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    let call = run_there(home.path(), &[], "echo ran").env("XDG_STATE_HOME", there);
    let done = call.by(as_other).finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n"), "{done:?}");
    Ok(())
}

/// A script that reads a number, waits, and writes it back plus one. Only the lock protects the number.
const COUNT_SCRIPT: &str = "n=$(cat \"$COUNTER\"); sleep 0.01; echo $((n + 1)) >\"$COUNTER\"";

fn storm() {
    const EACH: usize = 5;
    let home = TempDir::new().unwrap();
    let counter = home.path().join("counter");
    fs::write(&counter, "0\n").unwrap();
    let counter_path = counter.to_str().unwrap();
    thread::scope(|scope| {
        let take_turns = || {
            for _ in 0..EACH {
                let call = run_there(home.path(), &[], COUNT_SCRIPT).env("COUNTER", counter_path);
                call.finish().expect(0, &[]);
            }
        };
        let processes: Vec<_> = (0..12).map(|_| scope.spawn(take_turns)).collect();
        processes.into_iter().for_each(joined);
    });
    assert_eq!(fs::read_to_string(&counter).unwrap(), format!("{}\n", 12 * EACH));
}

/// Returns the result of a thread. If the thread has panicked, panics with its message, which a scope would not show.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn cron() {
    const HELD: Duration = Duration::from_secs(3);
    let home = TempDir::new().unwrap();
    let file = home.path().join("ran");
    let script = format!("echo ran >>{}", file.display());
    let call = || run_there(home.path(), &["--no-wait", "-E", "0", "--min-hold", "3s"], &script).start();
    let began = Instant::now();
    let started: Vec<_> = (0..12).map(|_| call()).collect();
    let mut ends: Vec<Duration> = thread::scope(|scope| {
        let end = |one: Running| {
            one.finish().expect(0, &[]);
            began.elapsed()
        };
        let waiting: Vec<_> = started.into_iter().map(|one| scope.spawn(move || end(one))).collect();
        waiting.into_iter().map(joined).collect()
    });
    ends.sort_unstable();
    let ran = fs::read_to_string(&file).unwrap();
    let (holders, all) = (ran.lines().count() as u32, ends[11]);
    assert!(all >= HELD * holders, "{holders} commands ran in {all:?}: two of them at the same time");
    assert_in_time!(ends[10] < HELD, "one call started after the first had ended: {ends:?}");
    assert_eq!(ran, "ran\n");
}

fn schema() {
    let home = TempDir::new().unwrap();
    printed_schema(&home);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "the schema must only be printed");
    let done = at_home(home.path(), ["init", "--yes"]).finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "there was nothing to do\n"));
    let check = at_home(home.path(), ["check"]).finish();
    assert!(check.status == 0 && check.stdout.contains("good     writable"), "{check:?}");
}

fn printed_schema(home: &TempDir) -> String {
    let printed = at_home(home.path(), ["schema"]).finish();
    assert!(printed.status == 0 && printed.stdout.contains("CREATE TABLE"), "{printed:?}");
    printed.stdout
}

fn taken_by_sqlite() -> Result<(), String> {
    let program = Command::new("sqlite3").arg(":memory:").stdin(Stdio::piped()).spawn();
    let mut sqlite = program.map_err(|e| format!("sqlite3 can't be run: {e}"))?;
    let schema = printed_schema(&TempDir::new().unwrap());
    std::io::Write::write_all(&mut sqlite.stdin.take().unwrap(), schema.as_bytes()).unwrap();
    assert!(sqlite.wait().unwrap().success());
    Ok(())
}
