//! Locks that are lost while the command runs: the status is 74, and no part of the command lives on.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::Signal;

use super::OnServer;
use super::call::{Running, eventually, run};
use super::waits::{connection, hold};

pub(crate) const CASES: &[OnServer] = &[
    ("a lock that is gone kills the command at once", gone),
    ("a lock that another client has kills the command at once and stays that client's", taken),
    ("a lock that was lost unnoticed is told at the end", unnoticed),
    ("a lease that can't be renewed terminates the command in time", terminated),
    ("a command that ignores SIGTERM is killed before the lease ends", killed),
    ("a program that was stopped for longer than its lease kills the command", stopped),
    ("a program that is killed takes the command with it", program_killed),
];

fn gone(server: &Owned) {
    let holder = hold_unwilling(server, "gone");
    redis::cmd("DEL").arg("gone").exec(&mut connection(server)).unwrap();
    is_killed_at_once(&holder);
    holder.finish().expect(74, &["\"gone\" was lost", "killed"]);
}

fn taken(server: &Owned) {
    let holder = hold_unwilling(server, "taken");
    redis::cmd("SET").arg("taken").arg("theirs").arg("PX").arg(60_000).exec(&mut connection(server)).unwrap();
    is_killed_at_once(&holder);
    holder.finish().expect(74, &["\"taken\" was lost", "another owner holds it", "killed"]);
    let value: String = redis::cmd("GET").arg("taken").query(&mut connection(server)).unwrap();
    assert_eq!(value, "theirs");
}

/// Holds the lock with a ttl of 3 s, renewed each second, and with a command that goes on after SIGTERM.
fn hold_unwilling(server: &Owned, name: &str) -> Running {
    let script = "trap 'echo asked' TERM; echo held; while :; do sleep 0.02; done";
    let holder = run(server.url(), name, &["--ttl", "3s"], script).start();
    assert_eq!(holder.line(), "held");
    holder
}

/// The next renewal, within a second, shows the loss. If the command got SIGTERM before, or were left running until its
/// lease ends, it would print a line.
fn is_killed_at_once(holder: &Running) {
    // A program whose renewal is late may have to send SIGTERM, a little more than a second before the lease ends.
    const ASKED_BY_ITS_LEASE: Duration = Duration::from_millis(1_800);
    let lost = Instant::now();
    if let Some(line) = holder.next_line() {
        let at = lost.elapsed();
        assert_in_time!(at < ASKED_BY_ITS_LEASE, "{line} after {at:?}");
        panic!("the command was not killed at once: {line} after {at:?}");
    }
    let lived = lost.elapsed();
    assert_in_time!(lived < ASKED_BY_ITS_LEASE, "killed after {lived:?}");
}

fn unnoticed(server: &Owned) {
    // The ttl is so long that no renewal is sent during the test.
    let holder =
        run(server.url(), "unnoticed", &[], "trap 'exit 0' TERM; echo held; sleep 100 & wait").start();
    assert_eq!(holder.line(), "held");
    redis::cmd("DEL").arg("unnoticed").exec(&mut connection(server)).unwrap();
    holder.signal(Signal::TERM);
    holder.finish().expect(74, &["\"unnoticed\" was lost before the command ended"]);
}

fn terminated(server: &Owned) {
    let script = "trap 'echo terminated; exit 0' TERM; echo held; sleep 100 & wait";
    let holder = run(server.url(), "terminated", &["--ttl", "3s"], script).start();
    assert_eq!(holder.line(), "held");
    server.kill().unwrap();
    let killed = Instant::now();
    assert_eq!(holder.line(), "terminated");
    let noticed = killed.elapsed();
    // Before the lease ends, and not before a renewal has failed.
    assert_in_time!(noticed < Duration::from_millis(2_900), "{noticed:?}");
    assert_in_time!(noticed > Duration::from_millis(900), "{noticed:?}");
    holder.finish().expect(74, &["terminated"]);
}

fn killed(server: &Owned) {
    let script = "trap '' TERM; while :; do echo alive; sleep 0.01; done";
    let holder = run(server.url(), "killed", &["--ttl", "2s"], script).start();
    holder.line();
    let left: u64 = redis::cmd("PTTL").arg("killed").query(&mut connection(server)).unwrap();
    // The lease ends at most `left` after this moment.
    let asked = Instant::now();
    server.kill().unwrap();
    let lived = holder.last_sign_of_life() - asked;
    let done = holder.finish();
    done.expect(74, &["\"killed\" was lost", "killed"]);
    assert_in_time!(lived < Duration::from_millis(left), "{lived:?} {left} {done:?}");
    assert_in_time!(lived > Duration::from_secs(1), "{lived:?} {left} {done:?}");
}

fn stopped(server: &Owned) {
    let holder = hold(server, "stopped", &["--ttl", "1s"]);
    holder.signal(Signal::STOP);
    eventually("the lease ends", || {
        let exists: bool = redis::cmd("EXISTS").arg("stopped").query(&mut connection(server)).unwrap();
        !exists
    });
    // The end of the last holder does not disturb the next one.
    let next = hold(server, "stopped", &["--no-wait"]);
    holder.signal(Signal::CONT);
    let done = holder.finish();
    done.expect(74, &["\"stopped\" was lost", "killed"]);
    assert_in_time!(done.took < Duration::from_secs(2), "{done:?}");
    next.signal(Signal::TERM);
    next.finish().expect(143, &[]);
}

fn program_killed(server: &Owned) {
    let holder = hold(server, "program-killed", &[]);
    holder.signal(Signal::KILL);
    // `finish` also waits for the command's end.
    let done = holder.finish();
    assert_eq!(done.status, -9, "{done:?}");
    assert_in_time!(done.took < Duration::from_secs(2), "{done:?}");
}
