//! A command that runs once per period, by the server's clock.

use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, test_kill_process};

use super::OnServer;
use super::call::{eventually, lock, run};

pub(crate) const CASES: &[OnServer] = &[
    ("--once-per runs a command once in its slot, and lock ends with it", once),
    ("a command that fails gives its slot back", failed),
    ("with --wait the next slot's run begins when the slot is over", next_slot),
    ("near the slot's end lock stays until then", near_the_end),
    ("a signal leaves a slot that lock stays for", signalled),
    ("a kept slot can be broken", broken),
];

/// A slot that no test sees the end of, but for one in a million runs.
const LONG: [&str; 2] = ["--once-per", "20d"];

fn once(server: &Owned) {
    let flags = [&LONG[..], &["--no-wait"]].concat();
    let done = run(server.url(), "once", &flags, "echo ran").finish();
    done.expect(0, &[]);
    assert_eq!(done.stdout, "ran\n");
    let again = run(server.url(), "once", &flags, "echo ran").finish();
    again.expect(75, &["not acquired", "held by done: "]);
    assert_eq!(again.stdout, "");
    let again = run(server.url(), "once", &[&flags[..], &["-E", "0"]].concat(), "exit 9").finish();
    again.expect(0, &["not acquired"]);
    let status = lock(["status", "--on", server.url(), "once"]).finish();
    assert!(status.stdout.contains("done: "), "{status:?}");
}

fn failed(server: &Owned) {
    let flags = [&LONG[..], &["--no-wait"]].concat();
    run(server.url(), "failed", &flags, "exit 3").finish().expect(3, &[]);
    run(server.url(), "failed", &flags, "kill -9 $$").finish().expect(137, &[]);
    run(server.url(), "failed", &flags, "exit 0").finish().expect(0, &[]);
    run(server.url(), "failed", &flags, "exit 0").finish().expect(75, &[]);
}

fn next_slot(server: &Owned) {
    // The ttl is short: only a slot that ends within it makes lock stay.
    let flags = ["--once-per", "2s", "--ttl", "300ms", "--wait", "10s"];
    let next = || {
        let done = run(server.url(), "next", &flags, "date +%s%3N").finish();
        done.expect(0, &[]);
        done
    };
    let slot = || {
        let done = next();
        // The machine stood still: the slot had ended before the command did.
        assert_in_time!(!done.stderr.contains("longer than its slot"), late by Duration::from_secs(1), "{done:?}");
        done.stdout.trim().parse::<u64>().unwrap() / 2000
    };
    // This one may begin at the end of a slot, and outlast it; the others begin with theirs.
    next();
    let slots = [slot(), slot()];
    assert!(slots[0] < slots[1], "run twice in one slot: {slots:?}");
}

fn near_the_end(server: &Owned) {
    // The lease of a minute outlasts each slot.
    let flags = ["--once-per", "2s", "--ttl", "1m", "--wait", "10s"];
    let done = run(server.url(), "near", &flags, "true").finish();
    done.expect(0, &[]);
    assert!(done.took < Duration::from_secs(10), "it waits for the slot, not for the lease: {done:?}");
    // The next slot is free before the lease would have ended.
    run(server.url(), "near", &flags, "true").finish().expect(0, &[]);
}

fn signalled(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // The lease outlasts the slot, so lock stays.
    let flags = [&LONG[..], &["--ttl", "30d"]].concat();
    let script = format!("echo $PPID >{}; echo ran", pid.display());
    let call = run(server.url(), "signalled", &flags, &script).start();
    assert_eq!(call.line(), "ran");
    // After the command, its watcher ends and is reaped.
    let watcher = Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
    eventually("the command's end is known", || test_kill_process(watcher).is_err());
    call.signal(Signal::TERM);
    let done = call.finish();
    assert_eq!(done.status, 143, "{done:?}");
    run(server.url(), "signalled", &["--no-wait"], "true").finish().expect(75, &["not acquired"]);
}

fn broken(server: &Owned) {
    let flags = [&LONG[..], &["--no-wait"]].concat();
    run(server.url(), "broken", &flags, "true").finish().expect(0, &[]);
    lock(["break", "--on", server.url(), "broken", "--yes", "--now"]).finish().expect(0, &[]);
    run(server.url(), "broken", &flags, "true").finish().expect(0, &[]);
}
