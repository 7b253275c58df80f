// Proves: run-unkillable
//! Processes of the command that can't be ended: the lock is kept as long as it is this holder's, and they
//! are reported.
//!
//! Here the program may not signal other users' processes, although it is root's: it lacks CAP_KILL (capabilities(7)). A
//! process of the command that has become another user's then refuses signals, as what sudo has started does.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, getuid, kill_process, test_kill_process};
use tempfile::TempDir;

use super::WhereAllowed;
use super::call::{Call, Running, eventually, lock, run};
use super::waits::{connection, next_finds_it_unchanged};
use super::watch::SOON;

pub(crate) const CASES: &[WhereAllowed] = &[
    ("what can't be ended keeps the lock after the command", after_the_command),
    ("what can't be ended keeps a lock whose --max-hold is over", after_max_hold),
    ("what can't be ended keeps a broken lock to its lease's end", broken),
    ("what can't be ended keeps the lock when the watcher is dead", watcher_killed),
    ("what can't be ended goes on without a lost lock, and is named", lost),
    ("a command that can't be ended goes on without a lost lock, and is named", leader),
    ("a signal ends the wait for what can't be ended", signalled),
    ("what can't be ended is named though the program is killed", program_killed),
    ("a process that can pass SIGTERM on gets it before SIGKILL", passed_on),
    ("a process that a tracer has stopped is ended", traced),
    ("a frozen process keeps the lock until it has ended", frozen),
];

/// The prefix with which the program is started without CAP_KILL.
const POWERLESS: [&str; 5] = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"];
/// The prefix with which the command starts another user's process.
const OTHER_USER: &str = "setpriv --reuid 65534 --clear-groups";

/// The folder that another user's process writes to. The process ends when the folder is gone.
struct Work(TempDir);

impl Work {
    /// Returns the reason if this machine has no other users for the test.
    fn new() -> Result<Work, String> {
        let tried =
            Command::new(POWERLESS[0]).args(&POWERLESS[1..]).args(OTHER_USER.split(' ')).arg("true").output();
        if !getuid().is_root() || !tried.is_ok_and(|tried| tried.status.success()) {
            return Err("only root may start other users' processes, by setpriv(1)".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        Ok(Work(folder))
    }

    fn file(&self) -> String {
        self.0.path().join("written").display().to_string()
    }

    /// The other user's process.
    fn loops(&self) -> String {
        let (there, file) = (self.0.path().display(), self.file());
        format!("{OTHER_USER} sh -c 'while [ -d {there} ]; do echo >>{file}; sleep 0.02; done' >&- 2>&-")
    }

    /// A script that starts it in the background, and goes on when it works.
    fn begun(&self) -> String {
        format!("{} & until [ -s {} ]; do sleep 0.02; done", self.loops(), self.file())
    }

    fn is_going_on(&self) {
        let length = || fs::metadata(self.file()).map_or(0, |file| file.len());
        let before = length();
        eventually("it goes on", || length() > before);
    }

    fn end(self) {
        self.0.close().unwrap();
    }
}

fn powerless(call: Call) -> Call {
    call.by(POWERLESS)
}

/// Checks that another client does not get the lock, for longer than its lease of a second.
#[track_caller]
fn is_kept(server: &Owned, name: &str) {
    run(server.url(), name, &["--wait", "1500ms"], "true").finish().expect(75, &[]);
}

fn delete(server: &Owned, name: &str) {
    redis::cmd("DEL").arg(name).exec(&mut connection(server)).unwrap();
}

/// Starts a holder whose command has started the work, and then does `rest`.
fn hold(server: &Owned, work: &Work, name: &str, flags: &[&str], rest: &str) -> Running {
    let script = format!("{}; echo $PPID; {rest}", work.begun());
    powerless(run(server.url(), name, flags, &script)).start()
}

#[track_caller]
fn tells(holder: &Running) {
    let line = holder.complaint();
    for what in
        ["lock: process ", "of the command goes on: lock may not signal it", " is kept until that has ended"]
    {
        assert!(line.contains(what), "{line}");
    }
}

fn after_the_command(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "kept-after", &["--ttl", "1s"], "exit 4");
    tells(&holder);
    is_kept(server, "kept-after");
    work.is_going_on();
    work.end();
    holder.finish().expect(4, &[]);
    run(server.url(), "kept-after", &["--no-wait"], "true").finish().expect(0, &[]);
    Ok(())
}

fn after_max_hold(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let flags = ["--ttl", "1s", "--max-hold", "300ms"];
    let holder =
        hold(server, &work, "kept-max-hold", &flags, "trap '' TERM; exec 2>&-; while :; do sleep 0.02; done");
    tells(&holder);
    is_kept(server, "kept-max-hold");
    work.is_going_on();
    work.end();
    holder.finish().expect(124, &["was held for as long as --max-hold allows"]);
    Ok(())
}

fn broken(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "kept-broken", &["--ttl", "4s"], "exec sleep 100");
    holder.line();
    let done = lock(["break", "kept-broken", "--yes"]).env("LOCK_URL", server.url()).finish();
    assert_eq!(done.status, 0, "{done:?}");
    tells(&holder);
    // The command has ended, but not all of it. The rest of the lease keeps others away.
    run(server.url(), "kept-broken", &["--no-wait"], "true").finish().expect(75, &[]);
    holder.finish().expect(77, &["\"kept-broken\" was lost (it was revoked), and process ", "goes on"]);
    work.is_going_on();
    work.end();
    run(server.url(), "kept-broken", &["--wait", "4s"], "true").finish().expect(0, &[]);
    Ok(())
}

fn watcher_killed(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "kept-watcher", &["--ttl", "1s"], "exec sleep 100");
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    kill_process(watcher, Signal::KILL).unwrap();
    tells(&holder);
    is_kept(server, "kept-watcher");
    work.is_going_on();
    work.end();
    holder.finish().expect(71, &["the watcher of the command has ended: the command was killed"]);
    Ok(())
}

fn lost(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "gone-on", &["--ttl", "1s"], "exec sleep 100");
    holder.line();
    delete(server, "gone-on");
    let done = holder.finish();
    done.expect(77, &["\"gone-on\" was lost (the server no longer knows of it), and process ", "goes on"]);
    assert!(!done.stderr.contains("the command was killed"), "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
    work.is_going_on();
    work.end();
    Ok(())
}

/// As with sudo, which becomes root's process.
fn leader(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let script = format!("exec {}", work.loops());
    let holder = powerless(run(server.url(), "refusing", &["--ttl", "1s"], &script)).start();
    eventually("it works", || fs::metadata(work.file()).is_ok());
    delete(server, "refusing");
    let done = holder.finish();
    done.expect(77, &["\"refusing\" was lost", "lock may not signal it"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    work.is_going_on();
    work.end();
    Ok(())
}

fn signalled(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "left-to-ttl", &["--ttl", "30s"], "exit 4");
    tells(&holder);
    // One that comes with the command's end is the same signal for the user.
    holder.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(1_100));
    assert!(is_alive(holder.id()));
    holder.signal(Signal::TERM);
    let done = holder.finish();
    done.expect(77, &["goes on", "\"left-to-ttl\" stays held until its ttl is over"]);
    run(server.url(), "left-to-ttl", &["--no-wait"], "true").finish().expect(75, &[]);
    work.end();
    Ok(())
}

fn is_alive(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn program_killed(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let holder = hold(server, &work, "orphaned", &["--ttl", "30s"], "exec sleep 100");
    holder.line();
    holder.signal(Signal::KILL);
    // No reader of stderr waits for the watcher, which lives as long as the work.
    let done = holder.finish();
    done.expect(-9, &["lock: lock was killed, and process ", "of the command goes on"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    work.is_going_on();
    work.end();
    Ok(())
}

/// The leader ends the other user's process when it gets SIGTERM, as su(1) does. The program, which would send it
/// SIGTERM before the lease ends, is killed.
fn passed_on(server: &Owned) -> Result<(), String> {
    let work = Work::new()?;
    let (file, there) = (work.file(), work.0.path().display().to_string());
    let script = format!(
        "{}; trap 'mv {there} {there}.done' TERM; echo held; while :; do sleep 0.02; done",
        work.begun()
    );
    let holder = powerless(run(server.url(), "passed-on", &["--ttl", "3s"], &script)).start();
    assert_eq!(holder.line(), "held");
    eventually("it works", || fs::metadata(&file).unwrap().len() > 2);
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert!(!done.stderr.contains("goes on"), "{done:?}");
    fs::rename(format!("{there}.done"), &there).unwrap();
    next_finds_it_unchanged(server, "passed-on", &file);
    work.end();
    Ok(())
}

/// Attaches to a process, which stops it, and never hears of its end (ptrace(2)).
const TRACER: &str =
    "syscall(0 + $ARGV[0], 16, 0 + $ARGV[1], 0, 0) == 0 or exit 3; $| = 1; print qq(traced\\n); sleep 100";

fn traced(server: &Owned) -> Result<(), String> {
    let number = match std::env::consts::ARCH {
        "x86_64" => "101",
        "aarch64" => "117",
        other => return Err(format!("the number of ptrace(2) on {other} is not known")),
    };
    let holder = run(server.url(), "traced", &["--ttl", "2s"], "echo $$; exec sleep 100").start();
    let command = holder.line();
    let tracer = super::call::program("perl", ["-e", TRACER, number, &command]).start();
    let Some(line) = tracer.next_line() else {
        return Err("this machine does not allow ptrace(2)".to_owned());
    };
    assert_eq!(line, "traced");
    delete(server, "traced");
    let done = holder.finish();
    done.expect(74, &["\"traced\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    // The tracer has not noticed, and keeps it from being reaped.
    let command = Pid::from_raw(command.parse().unwrap()).unwrap();
    assert!(test_kill_process(command).is_ok());
    drop(tracer);
    Ok(())
}

/// A group of processes that a first version of control groups freezes: SIGKILL ends them only when they are thawed, as
/// it ends a process only when its disk has answered.
struct Freezer(std::path::PathBuf);

impl Freezer {
    fn new() -> Result<Freezer, String> {
        let folder = Path::new("/sys/fs/cgroup/freezer").join(format!("onelock-test-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Freezer(folder))
    }

    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).unwrap();
        eventually(state, || fs::read_to_string(self.0.join("freezer.state")).unwrap().trim() == state);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _: std::io::Result<()> = fs::write(self.0.join("freezer.state"), "THAWED");
        eventually("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

fn frozen(server: &Owned) -> Result<(), String> {
    let freezer = Freezer::new()?;
    let script =
        format!("sleep 100 & echo $! >{}/cgroup.procs; echo frozen; exec sleep 100", freezer.0.display());
    let holder = run(server.url(), "frozen", &["--ttl", "1s"], &script).start();
    assert_eq!(holder.line(), "frozen");
    freezer.set("FROZEN");
    holder.signal(Signal::TERM);
    let line = holder.complaint();
    assert!(line.contains("(sleep) of the command was killed and has not ended yet"), "{line}");
    is_kept(server, "frozen");
    freezer.set("THAWED");
    holder.finish().expect(143, &[]);
    Ok(())
}
