//! `lock break`, and what happens to the holder's command.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::Signal;

use super::OnServer;
use super::call::{Done, lock, run};
use super::waits::{hold, next_finds_it_unchanged};

/// Within this time a waiter begins to wait, and a holder learns of changes to its lock.
const A_MOMENT: Duration = Duration::from_millis(700);

pub(crate) const CASES: &[OnServer] = &[
    ("a lock without a holder is not broken", free),
    ("break wants to hear --yes, and names the holder", unsure),
    ("a broken lock terminates the command at once and is free when that has ended", broken),
    ("a broken lock is another's only when the command has ended", lingering),
    ("a command that ignores SIGTERM is killed before a broken lock is free", stubborn),
    ("a lock broken now is free at once, and its command killed", now),
];

fn break_lock(server: &Owned, args: &[&str]) -> Done {
    lock(["break"].iter().chain(args)).env("LOCK_URL", server.url()).finish()
}

fn free(server: &Owned) {
    let done = break_lock(server, &["unheld", "--yes"]);
    assert_eq!((done.status, done.stdout.as_str()), (1, "\"unheld\" is free: no client held it\n"));
}

fn unsure(server: &Owned) {
    let holder = hold(server, "unsure", &["--label", "the nightly build"]);
    break_lock(server, &["unsure"]).expect(64, &["held by the nightly build", "--yes"]);
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

fn broken(server: &Owned) {
    let script = "trap 'echo terminated; exit 0' TERM; echo held; sleep 100 & wait";
    let holder = run(server.url(), "broken", &["--ttl", "60s"], script).start();
    assert_eq!(holder.line(), "held");
    let next = run(server.url(), "broken", &["--wait", "40s"], "echo next").start();
    sleep(A_MOMENT);
    let done = break_lock(server, &["broken", "--yes"]);
    assert_eq!(done.status, 0, "{done:?}");
    for what in ["\"broken\" is broken; it becomes free when its holder has stopped, in ", "it was held by "]
    {
        assert!(done.stdout.contains(what), "{what}: {done:?}");
    }
    let at = Instant::now();
    assert_eq!(holder.line(), "terminated");
    // The next renewal is 20 s away, and the deadline 60 s.
    assert_in_time!(at.elapsed() < Duration::from_secs(1), "told after {:?}", at.elapsed());
    holder.finish().expect(74, &["\"broken\" was broken: the command was terminated"]);
    let ended = Instant::now();
    assert_eq!(next.line(), "next");
    assert_in_time!(ended.elapsed() < Duration::from_secs(1), "the next has it after {:?}", ended.elapsed());
    next.finish().expect(0, &[]);
}

fn lingering(server: &Owned) {
    // The command takes 2 s to stop.
    let script = "trap 'sleep 2; echo done; exit 0' TERM; echo held; sleep 100 & wait";
    let holder = run(server.url(), "lingering", &["--ttl", "60s"], script).start();
    assert_eq!(holder.line(), "held");
    let next = run(server.url(), "lingering", &["--wait", "40s"], "echo next").start();
    sleep(A_MOMENT);
    let at = Instant::now();
    assert_eq!(break_lock(server, &["lingering", "--yes"]).status, 0);
    assert_eq!(next.line(), "next");
    assert!(at.elapsed() >= Duration::from_secs(2), "granted after {:?}", at.elapsed());
    assert_eq!(holder.line(), "done");
    holder.finish().expect(74, &["\"lingering\" was broken: the command was terminated"]);
    next.finish().expect(0, &[]);
}

fn stubborn(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written").display().to_string();
    let script = format!("trap '' TERM; echo held; while :; do echo >>{file}; sleep 0.01; done");
    let holder = run(server.url(), "stubborn", &["--ttl", "3s"], &script).start();
    assert_eq!(holder.line(), "held");
    assert_eq!(break_lock(server, &["stubborn", "--yes"]).status, 0);
    next_finds_it_unchanged(server, "stubborn", &file);
    holder.finish().expect(74, &["\"stubborn\" was lost (it was revoked): the command was killed"]);
}

fn now(server: &Owned) {
    let holder = hold(server, "broken-now", &["--ttl", "6s"]);
    let done = break_lock(server, &["broken-now", "--yes", "--now", "--label", "the admin"]);
    assert!(done.status == 0 && done.stdout.contains("may run until"), "{done:?}");
    run(server.url(), "broken-now", &["--no-wait"], "true").finish().expect(0, &[]);
    let done = holder.finish();
    done.expect(74, &["\"broken-now\" was lost", "killed"]);
    assert_in_time!(done.took < Duration::from_secs(4), "{done:?}");
}
