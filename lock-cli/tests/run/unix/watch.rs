// Proves: run-ends-all
//! The watcher: no part of the command lives on, whatever happens to `lock` itself.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};

use super::OnServer;
use super::call::{Running, lock, run};
use super::waits::{connection, next_finds_it_unchanged};

pub(crate) const CASES: &[OnServer] = &[
    ("a program that is stopped writes nothing when its lease has ended", stopped),
    ("a renewed lease moves the deadline", renewed),
    ("a watcher that is killed takes the command with it", watcher_killed),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("a program and a watcher that are killed take the command with them", both_killed),
    ("a command whose deadline has come is not started", too_late),
    ("a watcher is not ended by signals", watcher_signalled),
    ("a watcher that was stopped still ends the command in time", watcher_stopped),
    ("a watcher that was stopped before a break passes it on", watcher_stopped_and_broken),
    ("a watcher that was stopped after a break still ends the command in time", watcher_stopped_when_told),
    ("a watcher that was stopped passes signals on", watcher_stopped_and_signalled),
    ("a watcher that was stopped tells of the command's end", watcher_stopped_and_ended),
    // It reads /proc.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("the command inherits nothing of ours", nothing_inherited),
    ("a command that has left its group is ended and gets signals", out_of_its_group),
];

/// The longest time that ending everything may take on a busy machine: far less than the 30 s of a lease.
pub(crate) const SOON: Duration = Duration::from_secs(5);

fn stopped(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written").display().to_string();
    let script = format!("echo >>{file}; echo held; while :; do echo >>{file}; sleep 0.02; done");
    let holder = run(server.url(), "stopped writer", &["--ttl", "1s"], &script).start();
    assert_eq!(holder.line(), "held");
    holder.signal(Signal::STOP);
    next_finds_it_unchanged(server, "stopped writer", &file);
    holder.signal(Signal::CONT);
    holder.finish().expect(74, &["\"stopped writer\" was lost", "killed"]);
}

fn renewed(server: &Owned) {
    let done = run(server.url(), "renewed", &["--ttl", "500ms"], "sleep 1.5; echo done").finish();
    // A release that comes after the end of the lease prints the same message.
    let expired = done.stderr.contains("was lost before the command ended");
    assert_in_time!(!expired, "{done:?}");
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "done\n", ""));
}

/// Holds the lock with a command that runs until it is killed, and has a child. Also returns the watcher.
fn hold(server: &Owned, name: &str, ttl: &str) -> (Running, Pid) {
    let script = "trap '' HUP; echo $PPID; sleep 100 & while :; do sleep 0.05; done";
    let holder = run(server.url(), name, &["--ttl", ttl], script).start();
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    assert_ne!(watcher.as_raw_nonzero().get().unsigned_abs(), holder.id());
    (holder, watcher)
}

fn watcher_killed(server: &Owned) {
    let (holder, watcher) = hold(server, "watcher-killed", "30s");
    kill_process(watcher, Signal::KILL).unwrap();
    let done = holder.finish();
    done.expect(71, &["the watcher of the command has ended"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    run(server.url(), "watcher-killed", &["--no-wait"], "true").finish().expect(0, &[]);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn both_killed(server: &Owned) {
    let script = "echo $PPID; exec sleep 100";
    let holder = run(server.url(), "both-killed", &[], script).start();
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    // Stops the program, so that it doesn't see the end of the watcher.
    holder.signal(Signal::STOP);
    kill_process(watcher, Signal::KILL).unwrap();
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// As when `lock` was stopped between the grant and the start of the command.
fn too_late(_server: &Owned) {
    const KILL_AT: u8 = 0;
    const STARTED: u8 = 0;
    const ENDED: u8 = 2;
    const KILLED: u8 = 3;
    // A message has a kind, a number, and room for a name.
    const FRAME: usize = 1 + 8 + 16;
    let ended = |deadline: u64| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let order = [&[KILL_AT][..], &deadline.to_le_bytes(), &[0; 16]].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut extra = SendAncillaryBuffer::new(&mut space);
        let input = File::open("/dev/null").unwrap();
        let inputs = [input.as_fd()];
        extra.push(SendAncillaryMessage::ScmRights(&inputs));
        sendmsg(&ours, &[IoSlice::new(&order)], &mut extra, SendFlags::empty()).unwrap();
        let watcher = Command::new(env!("CARGO_BIN_EXE_lock"))
            .args(["__watch", "kill-daemons", "1", "echo", "ran"])
            .stdin(OwnedFd::from(theirs))
            .output()
            .unwrap();
        let mut reports = Vec::new();
        ours.read_to_end(&mut reports).unwrap();
        let reports: Vec<u8> = reports.chunks(FRAME).map(|report| report[0]).collect();
        (String::from_utf8(watcher.stdout).unwrap(), reports)
    };
    assert_eq!(ended(1), (String::new(), vec![KILLED]));
    assert_eq!(ended(i64::MAX.unsigned_abs()), ("ran\n".to_owned(), vec![STARTED, ENDED]));
}

fn watcher_signalled(server: &Owned) {
    let script = "for s in INT QUIT TERM HUP TSTP TTIN TTOU; do kill -s $s $PPID; done; sleep 0.1; exit 3";
    run(server.url(), "watcher-signalled", &[], script).finish().expect(3, &[]);
}

fn watcher_stopped(server: &Owned) {
    let (holder, watcher) = hold(server, "watcher-stopped", "2s");
    kill_process(watcher, Signal::STOP).unwrap();
    redis::cmd("DEL").arg("watcher-stopped").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    done.expect(74, &["\"watcher-stopped\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn break_lock(server: &Owned, name: &str) {
    let done = lock(["break", name, "--yes"]).env("LOCK_URL", server.url()).finish();
    assert_eq!(done.status, 0, "{done:?}");
}

fn watcher_stopped_and_broken(server: &Owned) {
    let (holder, watcher) = hold(server, "watcher-broken", "60s");
    kill_process(watcher, Signal::STOP).unwrap();
    break_lock(server, "watcher-broken");
    let done = holder.finish();
    done.expect(74, &["\"watcher-broken\" was broken: the command was terminated"]);
    // The command ended long before its deadline.
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn watcher_stopped_when_told(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written").display().to_string();
    let script = format!("trap 'echo asked' TERM; echo $PPID; while :; do echo >>{file}; sleep 0.01; done");
    let holder = run(server.url(), "watcher-told", &["--ttl", "6s"], &script).start();
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    break_lock(server, "watcher-told");
    assert_eq!(holder.line(), "asked");
    kill_process(watcher, Signal::STOP).unwrap();
    next_finds_it_unchanged(server, "watcher-told", &file);
    let done = holder.finish();
    assert_eq!(done.status, 74, "{done:?}");
    // The line may come after one of the shell about its `sleep`.
    assert!(
        done.stderr.contains("\"watcher-told\" was lost (it was revoked): the command was killed"),
        "{done:?}"
    );
}

fn watcher_stopped_and_signalled(server: &Owned) {
    let (holder, watcher) = hold(server, "watcher-woken", "60s");
    kill_process(watcher, Signal::STOP).unwrap();
    holder.signal(Signal::TERM);
    let done = holder.finish();
    done.expect(143, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn watcher_stopped_and_ended(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let script = format!("echo $PPID; until [ -e {} ]; do sleep 0.02; done; exit 3", end.display());
    let holder = run(server.url(), "watcher-ended", &["--ttl", "6s"], &script).start();
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    kill_process(watcher, Signal::STOP).unwrap();
    File::create(end).unwrap();
    // The watcher continues with the next deadline that it gets, which is sent twice per renewal.
    let done = holder.finish();
    done.expect(3, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn nothing_inherited(server: &Owned) {
    let script = "ls /proc/self/fd";
    let without = Command::new("sh").args(["-c", script]).output().unwrap();
    let with = run(server.url(), "nothing-inherited", &[], script).finish();
    assert_eq!(with.stdout, String::from_utf8(without.stdout).unwrap());
}

/// A command that moves to the group of its parent, the watcher, and keeps stdout open.
pub(crate) const LEAVES: &str =
    "exec perl -e '$|=1; setpgrp(0, getppid()) or die; print \"held\\n\"; sleep 100'";

fn out_of_its_group(server: &Owned) {
    let hold = |ttl| {
        let holder = run(server.url(), "elsewhere", &["--ttl", ttl], LEAVES).start();
        assert_eq!(holder.line(), "held");
        holder
    };
    let holder = hold("30s");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    let holder = hold("2s");
    redis::cmd("DEL").arg("elsewhere").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    done.expect(74, &["\"elsewhere\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}
