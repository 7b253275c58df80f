//! The terms of a run: how long it is held at most and at least, what stands around it, what it ends with.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::servers::Owned;

use super::OnServer;
use super::call::{lock, run};
use super::waits::hold;

pub(crate) const CASES: &[OnServer] = &[
    ("-E is the status when somebody else holds", conflict),
    ("--max-hold ends the command in time", max_hold),
    ("--min-hold keeps the lock when the command has ended", min_hold),
    ("--kill-grace is how long before its death the command is asked to end", kill_grace),
    ("a lock that is held around the command is not waited for", nested),
    ("the URL can come from a file", on_file),
];

fn conflict(server: &Owned) {
    let _holder = hold(server, "conflict", &[]);
    run(server.url(), "conflict", &["--no-wait", "-E", "7"], "true").finish().expect(7, &["not acquired"]);
    run(server.url(), "conflict", &["--wait", "1s", "--conflict-exit-code", "0"], "exit 9")
        .finish()
        .expect(0, &["not acquired"]);
}

/// A third of the ttl and 50 ms before --max-hold is over.
fn max_hold(server: &Owned) {
    let script = "trap 'echo terminated; exit 0' TERM; echo held; sleep 100 & wait";
    let holder = run(server.url(), "max-hold", &["--ttl", "1500ms", "--max-hold", "3s"], script).start();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    let (said, lasted, held) = (holder.next_line(), holder.lasts(), began.elapsed());
    let done = holder.finish();
    done.expect(74, &["--max-hold"]);
    assert_in_time!(said.is_some(), "killed before it could say anything: {done:?}");
    assert_eq!(said.as_deref(), Some("terminated"));
    assert!(lasted >= Duration::from_millis(2450), "{lasted:?}");
    assert_in_time!(held < Duration::from_secs(3), "{held:?}");
    run(server.url(), "max-hold", &["--max-hold", "0s"], "true").finish().expect(64, &["max_hold"]);
}

fn min_hold(server: &Owned) {
    const LEAST: Duration = Duration::from_millis(1500);
    let holder = run(server.url(), "min-hold", &["--min-hold", "1500ms"], "echo done").start();
    assert_eq!(holder.line(), "done");
    let other = run(server.url(), "min-hold", &["--no-wait"], "true").finish();
    assert_in_time!(other.status == 75 || holder.lasts() < LEAST, "{other:?} after {:?}", holder.lasts());
    other.expect(75, &[]);
    let done = holder.finish();
    done.expect(0, &[]);
    assert!(done.lasted >= LEAST, "{done:?}");
    run(server.url(), "min-hold", &["--no-wait"], "true").finish().expect(0, &[]);
    // A signal says that nobody wants to wait for that; the command had ended in its own way.
    let holder = run(server.url(), "min-hold", &["--min-hold", "60s"], "echo done; exit 3").start();
    assert_eq!(holder.line(), "done");
    std::thread::sleep(Duration::from_millis(300));
    holder.signal(rustix::process::Signal::TERM);
    let done = holder.finish();
    assert_eq!(done.status, 143, "{done:?}");
    assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
}

/// It is asked 450 ms before --max-hold is over, and killed 50 ms before that.
fn kill_grace(server: &Owned) {
    let script = "trap 'date +%s%N; trap \"\" TERM' TERM; echo held; while :; do sleep 0.01; done";
    let holder =
        run(server.url(), "grace", &["--ttl", "3s", "--max-hold", "2s", "--kill-grace", "400ms"], script)
            .start();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    let (said, lasted, asked) = (holder.next_line(), holder.lasts(), began.elapsed());
    let done = holder.finish();
    done.expect(74, &[]);
    // Behind what the shell says of its `sleep`.
    assert!(done.stderr.contains("--max-hold"), "{done:?}");
    assert_in_time!(said.is_some(), "killed before it could say anything: {done:?}");
    assert!(lasted >= Duration::from_millis(1550), "{lasted:?}");
    assert_in_time!(asked < Duration::from_millis(1900), "{asked:?}");
    // A program that is stopped while it reckons the watcher's deadline tells one that is too early.
    assert_in_time!(done.lasted > Duration::from_millis(1900), "{done:?}");
    assert_in_time!(done.took > Duration::from_millis(200), "{done:?}");
}

fn nested(server: &Owned) {
    let lock = env!("CARGO_BIN_EXE_lock");
    let url = server.url();
    let inner = |name: &str| format!("{lock} run --on {url} --name {name} -- sh -c 'echo \"$LOCK_HELD\"'");
    let done = run(url, "outer", &[], &inner("outer")).finish();
    done.expect(64, &["\"outer\" is held around this command already", "LOCK_HELD"]);
    let done = run(url, "outer", &[], &inner("inner")).finish();
    assert_eq!(done.status, 0, "{done:?}");
    let held: Vec<&str> = done.stdout.lines().collect();
    assert!(held.len() == 2 && held[0].ends_with(" outer") && held[1].ends_with(" inner"), "{held:?}");
    // Another prefix is another lock.
    let prefixed = format!("{lock} run --on '{url}?prefix=p:' --name outer -- echo ran");
    assert_eq!(run(url, "outer", &[], &prefixed).finish().stdout, "ran\n");
}

fn on_file(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    let path = file.to_str().unwrap();
    let call = ["run", "--on-file", path, "--name", "on-file", "--", "echo", "ran"];
    lock(call).finish().expect(64, &[path]);
    std::fs::write(&file, "\n").unwrap();
    lock(call).finish().expect(64, &[path, "empty"]);
    std::fs::write(&file, format!("{}\n# the production server\n", server.url())).unwrap();
    let done = lock(call).env("LOCK_URL", "redis://127.0.0.1:1").finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}
