//! Daemons and other orphans of the command: they end with the lock, whatever their group and session.

use std::fs::File;
use std::path::Path;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, kill_process};

use super::OnServer;
use super::call::{Running, eventually, lock, run};
use super::waits::{connection, next_finds_it_unchanged};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("a program that is killed takes daemons of the command with it", daemon_of_a_killed_program),
    ("a lock that is gone kills daemons of the command", daemon_of_a_lost_lock),
    ("a program that is stopped has no daemons when its lease has ended", daemon_of_a_stopped_program),
    ("the end of the command is that of its daemons", daemon_of_an_ended_command),
    // Proves: run-daemons
    ("daemons that are killed at the end are told of", daemons_told_of),
    // Proves: run-daemons
    ("--keep-daemons lets daemons go on without the lock", kept),
    // Proves: run-daemons
    ("--keep-daemons keeps no daemon when the lock is lost", kept_until_lost),
    // Proves: run-daemons
    ("--keep-daemons keeps no daemon when the program is killed", kept_until_killed),
    // Proves: run-ends-all
    ("no part of a deep family works when the lease has ended", deep_family),
    // Proves: run-ends-all
    ("a daemon that forks and ends all the time is caught", forking_daemon),
    (
        "a watcher that is killed takes daemons of the command with it and nothing else",
        daemon_of_a_killed_watcher,
    ),
    ("a daemon is found whatever its name", daemon_with_half_a_letter),
    ("a daemon beside a child that a real-time signal killed is ended", daemon_beside_a_realtime_death),
    ("orphans that end are reaped", reaped),
    ("orphans that a real-time signal killed are reaped", reaped_realtime_death),
];

/// The start of a script. It leaves behind a process in a session of its own, which SIGTERM doesn't end and which keeps
/// stdout open.
pub(crate) const DAEMON: &str =
    "(setsid sh -c \"trap '' TERM HUP; echo daemon; while :; do sleep 0.05; done\" &);";

/// Holds the lock with a command that has left a daemon behind.
fn hold_with_daemon(server: &Owned, name: &str, ttl: &str) -> Running {
    let script = format!("{DAEMON} exec sleep 100");
    let holder = run(server.url(), name, &["--ttl", ttl], &script).start();
    assert_eq!(holder.line(), "daemon");
    holder
}

// In most of these cases, `finish` waits for every process that has stdout open.

fn daemon_of_a_killed_program(server: &Owned) {
    let holder = hold_with_daemon(server, "daemon-killed", "30s");
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn daemon_of_a_lost_lock(server: &Owned) {
    let holder = hold_with_daemon(server, "daemon-lost", "2s");
    redis::cmd("DEL").arg("daemon-lost").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    done.expect(74, &["\"daemon-lost\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// The program can't end the daemons: it is stopped until another holder has the lock.
fn daemon_of_a_stopped_program(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written").display().to_string();
    let daemon = format!("trap '' TERM HUP; while :; do echo >>{file}; sleep 0.02; done");
    let written = format!("until [ -s {file} ]; do sleep 0.02; done");
    let script = format!("(setsid sh -c \"{daemon}\" &); {written}; echo held; exec sleep 100");
    let holder = run(server.url(), "daemon-stopped", &["--ttl", "1s"], &script).start();
    assert_eq!(holder.line(), "held");
    holder.signal(Signal::STOP);
    next_finds_it_unchanged(server, "daemon-stopped", &file);
    holder.signal(Signal::CONT);
    holder.finish().expect(74, &["\"daemon-stopped\" was lost", "killed"]);
}

fn daemon_of_an_ended_command(server: &Owned) {
    let script = format!("{DAEMON} exit 4");
    let done = run(server.url(), "daemon-ended", &[], &script).finish();
    done.expect(4, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn daemons_told_of(server: &Owned) {
    let script = "setsid sleep 100 >&- 2>&- & until grep -qx sleep /proc/$!/comm; do :; done; exit 4";
    let call = |flags: &[&str], script| run(server.url(), "daemon-told", flags, script).finish();
    call(&[], script).expect(
        4,
        &["lock: the command has left process ", "(sleep) running, which is killed", "--keep-daemons"],
    );
    let done = call(&[], "sleep 100 >&- 2>&- & sleep 100 >&- 2>&- & exit 4");
    done.expect(4, &["lock: the command has left 2 processes running, process "]);
    for (flags, script) in [(&["--quiet"][..], script), (&[], "sleep 0 & wait; exit 4")] {
        let done = call(flags, script);
        assert_eq!((done.status, done.stderr.as_str()), (4, ""), "{done:?}");
    }
    let done = call(&["--json"], script);
    let events: Vec<serde_json::Value> =
        done.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = events.iter().find(|event| event["event"] == "left_behind").unwrap();
    assert_eq!(told["count"], 1, "{done:?}");
}

/// Holds the lock with `--keep-daemons` and a command that has left a daemon behind; the command does `rest`. The daemon
/// ends with the folder.
fn hold_with_kept_daemon(server: &Owned, name: &str, there: &Path, rest: &str) -> Running {
    let there = there.display();
    let daemon = format!(
        "trap '' TERM HUP; echo daemon; while [ -d {there} ]; do echo >>{there}/written; sleep 0.02; done"
    );
    let script =
        format!("setsid sh -c \"{daemon}\" & until [ -s {there}/written ]; do sleep 0.02; done; {rest}");
    let holder = run(server.url(), name, &["--ttl", "2s", "--keep-daemons"], &script).start();
    assert_eq!(holder.line(), "daemon");
    holder
}

fn kept(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let holder = hold_with_kept_daemon(server, "daemon-kept", folder.path(), "exit 4");
    eventually("the program ends", || holder.has_ended());
    run(server.url(), "daemon-kept", &["--no-wait"], "true").finish().expect(0, &[]);
    let length = || std::fs::metadata(folder.path().join("written")).unwrap().len();
    let before = length();
    eventually("the daemon goes on", || length() > before);
    folder.close().unwrap();
    let done = holder.finish();
    assert_eq!((done.status, done.stderr.as_str()), (4, ""), "{done:?}");
}

fn kept_until_lost(server: &Owned) {
    // The loss is seen while the command runs, at the end of the command, and when SIGTERM was sent in time.
    let folder = tempfile::tempdir().unwrap();
    let holder = hold_with_kept_daemon(server, "daemon-gone", folder.path(), "exec sleep 100");
    redis::cmd("DEL").arg("daemon-gone").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    done.expect(74, &["\"daemon-gone\" was lost", "killed"]);
    assert_in_time!(done.took < SOON, "{done:?}");
    let script = format!("until [ -e {}/end ]; do sleep 0.02; done", folder.path().display());
    let holder = hold_with_kept_daemon(server, "daemon-unnoticed", folder.path(), &script);
    redis::cmd("SET")
        .arg("daemon-unnoticed")
        .arg("theirs")
        .arg("PX")
        .arg(60_000)
        .exec(&mut connection(server))
        .unwrap();
    File::create(folder.path().join("end")).unwrap();
    let done = holder.finish();
    assert_eq!(done.status, 74, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
    let holder = hold_with_kept_daemon(server, "daemon-warned", folder.path(), "exec sleep 100");
    let broken = lock(["break", "daemon-warned", "--yes"]).env("LOCK_URL", server.url()).finish();
    assert_eq!(broken.status, 0, "{broken:?}");
    let done = holder.finish();
    done.expect(74, &["\"daemon-warned\" was broken"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn kept_until_killed(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let holder = hold_with_kept_daemon(server, "daemon-orphaned", folder.path(), "exec sleep 100");
    holder.signal(Signal::KILL);
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < SOON, "{done:?}");
}

/// Fifty processes, each the child of the one before and in a session of its own, which write to a file, and below them a
/// thousand others that do nothing. The program is stopped, so the watcher alone ends them.
fn deep_family(server: &Owned) {
    const FAMILY: &str = "use POSIX; my ($there, $depth) = ($ARGV[0], 0); \
        while ($depth < 50) { last if fork; setsid; $depth++ } \
        if ($depth == 50) { for (1..1000) { if (!fork) { setsid; sleep 100; exit } } open F, '>', \"$there/deepest\" } \
        while (-d $there) { open F, '>>', \"$there/written\"; print F \"\\n\"; close F; select undef, undef, undef, 0.02 }";
    let folder = tempfile::tempdir().unwrap();
    let (there, file) =
        (folder.path().display().to_string(), folder.path().join("written").display().to_string());
    let call =
        ["run", "--on", server.url(), "--name", "deep", "--ttl", "2s", "--", "perl", "-e", FAMILY, &there];
    let holder = lock(call).start();
    eventually("all generations work", || folder.path().join("deepest").exists());
    holder.signal(Signal::STOP);
    next_finds_it_unchanged(server, "deep", &file);
    holder.signal(Signal::CONT);
    holder.finish().expect(74, &["\"deep\" was lost", "killed"]);
}

/// Each process of it lives for less than a millisecond, and starts the next one.
fn forking_daemon(server: &Owned) {
    const DAEMON: &str = "use POSIX; my $there = $ARGV[0]; \
        for (1..300) { if (!fork) { sleep 100; exit } } \
        if (!fork) { setsid; while (-d $there) { exit if fork; open F, '>>', \"$there/written\"; print F \"\\n\"; close F } exit } \
        sleep 100";
    let folder = tempfile::tempdir().unwrap();
    let (there, file) = (folder.path().display().to_string(), folder.path().join("written"));
    let call =
        ["run", "--on", server.url(), "--name", "forking", "--ttl", "2s", "--", "perl", "-e", DAEMON, &there];
    let holder = lock(call).start();
    eventually("it forks", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 10));
    holder.signal(Signal::STOP);
    next_finds_it_unchanged(server, "forking", &file.display().to_string());
    holder.signal(Signal::CONT);
    holder.finish().expect(74, &["\"forking\" was lost", "killed"]);
}

fn daemon_of_a_killed_watcher(server: &Owned) {
    let script = format!("echo $PPID; {DAEMON} exec sleep 100");
    // A child of the program that became lock by exec(2) is a child of lock, and not of the command.
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

/// When the command ends, the watcher inherits a child that the command has not reaped.
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

fn reaped(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("counted").display().to_string();
    // The watcher's children are the command and two orphans, until the orphans have ended and are reaped.
    let children = "$(grep -lsx \"PPid:.$PPID\" /proc/[0-9]*/status | wc -l)";
    let orphan = format!("until [ -e {counted} ]; do sleep 0.02; done &");
    let script = format!(
        "({orphan} {orphan}); [ {children} = 3 ] || exit 5; >{counted}; until [ {children} = 1 ]; do sleep 0.02; done"
    );
    run(server.url(), "reaped", &[], &script).finish().expect(0, &[]);
}

fn reaped_realtime_death(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("number").display().to_string();
    let orphan = format!("(setsid sh -c 'echo $$ >{file}; kill -34 $$' &)");
    let reaped = format!("[ -s {file} ] && [ ! -e /proc/$(cat {file}) ]");
    let script = format!("{orphan}; until {reaped}; do sleep 0.02; done");
    let done = run(server.url(), "reaped-realtime", &[], &script).finish();
    done.expect(0, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}
