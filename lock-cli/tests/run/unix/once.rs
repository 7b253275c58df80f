//! A command that runs once per period, by the server's clock.

use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;

use super::OnServer;
use super::call::{eventually, lock, run};

pub(crate) const CASES: &[OnServer] = &[
    ("--once-per runs a command once in its slot, and lock ends with it", once),
    ("a command that fails gives its slot back", failed),
    ("with --wait the next slot's run begins when the slot is over", next_slot),
    ("near the slot's end lock stays until then", near_the_end),
    ("a signal leaves a slot that lock stays for", signalled),
    // Proves: slot-broken
    ("a kept slot can be broken", broken),
    // Proves: slot-done-is-shown
    ("done and running are told apart", told_apart),
];

/// A slot that no test sees the end of, but for one in a million runs.
const LONG: [&str; 2] = ["--once-per", "20d"];

fn once(server: &Owned) {
    let flags = [&LONG[..], &["--no-wait"]].concat();
    let done = run(server.url(), "once", &flags, "echo ran").finish();
    done.expect(0, &[]);
    assert_eq!(done.stdout, "ran\n");
    let again = run(server.url(), "once", &flags, "echo ran").finish();
    again.expect(75, &["not acquired", "done by ", ", slot ends in "]);
    assert_eq!(again.stdout, "");
    let again = run(server.url(), "once", &[&flags[..], &["-E", "0"]].concat(), "exit 9").finish();
    again.expect(0, &["not acquired"]);
    let status = lock(["status", "--on", server.url(), "once"]).finish();
    assert!(status.stdout.starts_with("\"once\" is done by "), "{status:?}");
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
        assert_in_time!(!done.stderr.contains("longer than its slot"), "{done:?}");
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
    for now in [&["--now"] as &[&str], &[]] {
        let unsure = lock(["break", "--on", server.url(), "broken"]).finish();
        unsure.expect(64, &["\"broken\" is done by ", "to break it, add --yes"]);
        run(server.url(), "broken", &flags, "true").finish().expect(75, &[]);
        let done = lock(["break", "--on", server.url(), "broken", "--yes"].iter().chain(now)).finish();
        done.expect(0, &[]);
        assert!(done.stdout.contains("is broken and free: the work can be done again"), "{done:?}");
        run(server.url(), "broken", &flags, "true").finish().expect(0, &[]);
    }
}

fn told_apart(server: &Owned) {
    let is_done = || {
        let status = lock(["status", "told-apart", "--json", "--on", server.url()]).finish();
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["holder"]["done"].as_bool().unwrap()
    };
    let flags = [&LONG[..], &["--json"]].concat();
    let mut running = run(server.url(), "told-apart", &flags, "echo ran; read line").with_stdin().start();
    assert_eq!(running.line(), "ran");
    assert!(!is_done());
    running.close_stdin();
    let ended = running.finish();
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stderr.contains("\"event\":\"released\""), "{ended:?}");
    let ended = run(server.url(), "told-apart", &flags, "true").finish();
    assert!(ended.status == 0 && ended.stderr.contains("\"event\":\"kept\""), "{ended:?}");
    assert!(!ended.stderr.contains("released") && is_done(), "{ended:?}");
    let waiting = run(server.url(), "told-apart", &[&flags[..], &["--wait", "1s"]].concat(), "true").finish();
    let event: Value = serde_json::from_str(waiting.stderr.lines().next().unwrap()).unwrap();
    assert!(event["event"] == "waiting" && event["holder"]["done"] == true, "{waiting:?}");
    // A label that looks so makes no lock done.
    let label = ["--label", "done: the first"];
    let holder = run(server.url(), "told-apart-label", &label, "echo held; exec sleep 100").start();
    assert_eq!(holder.line(), "held");
    lock(["break", "told-apart-label", "--on", server.url()])
        .finish()
        .expect(64, &["held by done the first"]);
}
