//! What the watcher does: no part of the command lives on, whatever happens to `lock` itself.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_conformance::servers::Owned;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};

use super::OnServer;
use super::call::{Running, eventually, lock, run};
use super::waits::connection;

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
    ("the command inherits nothing of ours", nothing_inherited),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("a program that is killed takes daemons of the command with it", daemon_of_a_killed_program),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("a lock that is gone kills daemons of the command", daemon_of_a_lost_lock),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("the end of the command is that of its daemons", daemon_of_an_ended_command),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    (
        "a watcher that is killed takes daemons of the command with it and nothing else",
        daemon_of_a_killed_watcher,
    ),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("a daemon is found whatever its name", daemon_with_half_a_letter),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("a daemon beside a child that a real-time signal killed is ended", daemon_beside_a_realtime_death),
    ("a command that has left its group is ended and gets signals", out_of_its_group),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("orphans that end are buried", buried),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ("orphans that a real-time signal killed are buried", buried_realtime_death),
];

/// How long ending everything may take, on a busy machine: far below the 30 s of a lease.
pub(crate) const SOON: Duration = Duration::from_secs(5);

fn stopped(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written").display().to_string();
    let script = format!("echo >>{file}; echo held; while :; do echo >>{file}; sleep 0.02; done");
    let holder = run(server.url(), "stopped writer", &["--ttl", "1s"], &script).start();
    assert_eq!(holder.line(), "held");
    holder.signal(Signal::STOP);
    // What the next holder finds stays as it is.
    let script = format!("wc -l <{file}; sleep 0.3; wc -l <{file}");
    let done = run(server.url(), "stopped writer", &["--wait", "10s"], &script).finish();
    done.expect(0, &[]);
    let lines: Vec<u32> = done.stdout.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(lines.len() == 2 && lines[0] > 1 && lines[0] == lines[1], "{lines:?}");
    holder.signal(Signal::CONT);
    holder.finish().expect(74, &["\"stopped writer\" was lost", "killed"]);
}

fn renewed(server: &Owned) {
    let done = run(server.url(), "renewed", &["--ttl", "500ms"], "sleep 1.5; echo done").finish();
    // So does a release say it that comes after the lease.
    let expired = done.stderr.contains("was lost before the command ended");
    assert_in_time!(!expired, late by Duration::from_millis(333), "{done:?}");
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "done\n", ""));
}

/// Holds the lock with a command that goes on until it is killed, and a child of it. Answers the watcher too.
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
    // So that it doesn't see the end of the watcher.
    holder.signal(Signal::STOP);
    kill_process(watcher, Signal::KILL).unwrap();
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// As it comes about when `lock` is stopped between the grant and the start.
fn too_late(_server: &Owned) {
    const KILL_AT: u8 = 0;
    const STARTED: u8 = 0;
    const ENDED: u8 = 3;
    const KILLED: u8 = 4;
    let ended = |deadline: u64| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let order = [&[KILL_AT][..], &deadline.to_le_bytes()].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut extra = SendAncillaryBuffer::new(&mut space);
        let input = File::open("/dev/null").unwrap();
        let inputs = [input.as_fd()];
        extra.push(SendAncillaryMessage::ScmRights(&inputs));
        sendmsg(&ours, &[IoSlice::new(&order)], &mut extra, SendFlags::empty()).unwrap();
        let watcher = Command::new(env!("CARGO_BIN_EXE_lock"))
            .args(["__watch", "1", "echo", "ran"])
            .stdin(OwnedFd::from(theirs))
            .output()
            .unwrap();
        let mut reports = Vec::new();
        ours.read_to_end(&mut reports).unwrap();
        let reports: Vec<u8> = reports.chunks(9).map(|report| report[0]).collect();
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
    // Far from its deadline.
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
    // What the next holder finds stays as it is.
    let script = format!("wc -l <{file}; sleep 0.3; wc -l <{file}");
    let next = run(server.url(), "watcher-told", &["--wait", "20s"], &script).finish();
    next.expect(0, &[]);
    let lines: Vec<u32> = next.stdout.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(lines.len() == 2 && lines[0] > 1 && lines[0] == lines[1], "{lines:?}");
    let done = holder.finish();
    assert_eq!(done.status, 74, "{done:?}");
    // Behind what the shell says of its `sleep`.
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
    // It is woken with the next deadline that it is told, twice per renewal.
    let done = holder.finish();
    done.expect(3, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn nothing_inherited(server: &Owned) {
    if cfg!(not(any(target_os = "linux", target_os = "android"))) {
        return;
    }
    let script = "ls /proc/self/fd";
    let without = Command::new("sh").args(["-c", script]).output().unwrap();
    let with = run(server.url(), "nothing-inherited", &[], script).finish();
    assert_eq!(with.stdout, String::from_utf8(without.stdout).unwrap());
}

/// The start of a script: has left behind a process in a session of its own, whom SIGTERM doesn't end, and who holds
/// stdout.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const DAEMON: &str =
    "(setsid sh -c \"trap '' TERM HUP; echo daemon; while :; do sleep 0.05; done\" &);";

/// Holds the lock with a command that has left a daemon behind.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn hold_with_daemon(server: &Owned, name: &str, ttl: &str) -> Running {
    let script = format!("{DAEMON} exec sleep 100");
    let holder = run(server.url(), name, &["--ttl", ttl], &script).start();
    assert_eq!(holder.line(), "daemon");
    holder
}

// In all of these `finish` waits for everybody who holds stdout.

#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_of_a_killed_program(server: &Owned) {
    let holder = hold_with_daemon(server, "daemon-killed", "30s");
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_of_a_lost_lock(server: &Owned) {
    let holder = hold_with_daemon(server, "daemon-lost", "2s");
    redis::cmd("DEL").arg("daemon-lost").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    done.expect(74, &["\"daemon-lost\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_of_an_ended_command(server: &Owned) {
    let script = format!("{DAEMON} exit 4");
    let done = run(server.url(), "daemon-ended", &[], &script).finish();
    done.expect(4, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_of_a_killed_watcher(server: &Owned) {
    let script = format!("echo $PPID; {DAEMON} exec sleep 100");
    // A child of what became lock by exec(2) is a child of lock, and not the command's.
    let folder = tempfile::tempdir().unwrap();
    let (alive, there) = (folder.path().join("alive"), folder.path().display().to_string());
    let stranger = format!(
        "(while [ -d {there} ]; do [ -e {there}/end ] && >{there}/alive; sleep 0.02; done) >&- 2>&- &"
    );
    let call = run(server.url(), "daemon-watcher", &[], &script);
    let holder = call.after(&format!("{stranger} :")).start();
    let watcher = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    assert_eq!(holder.line(), "daemon");
    kill_process(watcher, Signal::KILL).unwrap();
    let done = holder.finish();
    done.expect(71, &["the watcher of the command has ended"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    File::create(folder.path().join("end")).unwrap();
    eventually("the stranger goes on", || alive.exists());
    run(server.url(), "daemon-watcher", &["--no-wait"], "true").finish().expect(0, &[]);
}

/// The kernel cuts names at 15 bytes, which may be in the middle of a letter.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_with_half_a_letter(server: &Owned) {
    let daemon = "(setsid perl -e '$| = 1; $0 = \"демонночной\"; print \"daemon\\n\"; sleep 1 while 1' &);";
    let script = format!("{daemon} exec sleep 100");
    let holder = run(server.url(), "daemon-name", &[], &script).start();
    assert_eq!(holder.line(), "daemon");
    holder.signal(Signal::TERM);
    let done = holder.finish();
    done.expect(143, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// A child of the command that it has not buried comes to the watcher with the command's end.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn daemon_beside_a_realtime_death(server: &Owned) {
    let child = "$child = fork; if (!$child) { kill 34, $$; sleep 100 } $| = 1";
    let dead = "sub dead { open F, \"/proc/$child/status\"; local $/; <F> =~ /State:\tZ/ }";
    let command =
        format!("{child}; {dead} select undef, undef, undef, 0.02 until dead; print \"dead\\n\"; sleep 100");
    let script = format!("{DAEMON} exec perl -e '{command}'");
    let holder = run(server.url(), "daemon-realtime", &[], &script).start();
    let mut lines = [holder.line(), holder.line()];
    lines.sort();
    assert_eq!(lines, ["daemon", "dead"]);
    holder.signal(Signal::TERM);
    let done = holder.finish();
    done.expect(143, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// Goes over to the group of its parent, the watcher, and holds stdout.
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

#[cfg(any(target_os = "linux", target_os = "android"))]
fn buried(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("counted").display().to_string();
    // The watcher's children are the command and two orphans, until those have ended and are buried.
    let children = "$(grep -lsx \"PPid:.$PPID\" /proc/[0-9]*/status | wc -l)";
    let orphan = format!("until [ -e {counted} ]; do sleep 0.02; done &");
    let script = format!(
        "({orphan} {orphan}); [ {children} = 3 ] || exit 5; >{counted}; until [ {children} = 1 ]; do sleep 0.02; done"
    );
    run(server.url(), "buried", &[], &script).finish().expect(0, &[]);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn buried_realtime_death(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("number").display().to_string();
    let orphan = format!("(setsid sh -c 'echo $$ >{file}; kill -34 $$' &)");
    let buried = format!("[ -s {file} ] && [ ! -e /proc/$(cat {file}) ]");
    let script = format!("{orphan}; until {buried}; do sleep 0.02; done");
    let done = run(server.url(), "buried-realtime", &[], &script).finish();
    done.expect(0, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}
