//! Calls whose stdout or stderr can't be written.

use std::io::pipe;

use lock_test_servers::Owned;

use super::OnServer;
use super::call::{Call, eventually, lock, run};
use super::steps::is_held;
use super::usage::NOWHERE;
use super::waits::{connection, hold};

pub(crate) const CASES: &[OnServer] = &[
    ("a stderr that can't be written changes no status", stderr_broken),
    ("a lock is given back though stderr can't be written", given_back),
    ("a file that may not grow changes no status", file_full),
    ("a reader that goes away is no failure", reader_gone),
    // Proves: run-unread
    ("what has no reader is not held", no_reader),
    #[cfg(target_os = "linux")]
    ("an answer that can't be written is a status of its own", stdout_full),
];

/// Returns a pipe that has lost its reader.
fn closed() -> std::io::PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// Returns the same call once for each way in which stderr can be broken.
fn each_broken(call: impl Fn() -> Call) -> Vec<Call> {
    let mut calls = vec![call().stderr(closed()), call().redirected("2>&-")];
    if cfg!(target_os = "linux") {
        calls.push(call().redirected("2>/dev/full"));
    }
    calls
}

fn stderr_broken(server: &Owned) {
    let url = server.url();
    let _holder = hold(server, "broken-held", &[]);
    for (what, call, status) in [
        ("bad usage", (&|| lock(["run"])) as &dyn Fn() -> Call, 64),
        ("no server", &|| run(NOWHERE, "n", &["--no-wait"], "true"), 69),
        ("held", &|| run(url, "broken-held", &["--no-wait"], "true"), 75),
        (
            "held, at a status of the caller's",
            &|| run(url, "broken-held", &["--wait", "2s", "-vE7"], "true"),
            7,
        ),
        ("no command", &|| lock(["run", "--on", url, "--name", "n", "-v", "--", "/no/such/command"]), 127),
        ("a command's own", &|| run(url, "n", &["-v"], "exit 3"), 3),
        ("nothing to do", &|| lock(["schema", "--on", url]), 0),
    ] {
        for call in each_broken(call) {
            let done = call.finish();
            assert_eq!(done.status, status, "{what}: {done:?}");
        }
    }
    for call in each_broken(|| run(url, "broken-lost", &["--ttl", "3s"], "echo held; exec sleep 100")) {
        let holder = call.start();
        assert_eq!(holder.line(), "held");
        redis::cmd("DEL").arg("broken-lost").exec(&mut connection(server)).unwrap();
        assert_eq!(holder.finish().status, 74);
    }
}

fn given_back(server: &Owned) {
    for call in each_broken(|| run(server.url(), "given-back", &["-v", "--no-wait"], "echo ran")) {
        let done = call.finish();
        assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n"), "{done:?}");
    }
}

/// In this case the kernel also sends a signal.
fn file_full(server: &Owned) {
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log").display().to_string();
    let full =
        |call: Call, stream| call.redirected(&format!("{stream}>{file}")).after("ulimit -f 0").finish();
    let done = full(run(url, "full", &["-v", "--no-wait"], "echo ran"), 2);
    assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n"), "{done:?}");
    for (call, status) in [
        (lock(["run"]), 64),
        (run(NOWHERE, "full", &["--no-wait"], "true"), 69),
        (lock(["run", "--on", url, "--name", "full", "--", "/no/such/command"]), 127),
    ] {
        let done = full(call, 2);
        assert_eq!(done.status, status, "{done:?}");
    }
    full(lock(["status", "full", "--on", url]), 1).expect(73, &["can't be written to stdout"]);
    // The command finds the signal in the same state as without lock.
    let own = "kill -s XFSZ $$; exit 5";
    run(url, "full", &[], own).finish().expect(153, &[]);
    run(url, "full", &[], own).ignoring("XFSZ").finish().expect(5, &[]);
}

fn reader_gone(server: &Owned) {
    for args in [&["man"] as &[&str], &["completions", "bash"], &["--help"], &["info", "--on", server.url()]]
    {
        let done = lock(args).stdout(closed()).finish();
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{args:?}");
    }
}

fn no_reader(server: &Owned) {
    let parent = std::process::id().to_string();
    for args in [
        &["hold", "no-reader"] as &[&str],
        &["hold", "no-reader", "--json"],
        &["acquire", "no-reader", "--parent", &parent],
        &["acquire", "no-reader", "--parent", &parent, "--json"],
        &["acquire", "no-reader", "--lease", "1h"],
    ] {
        let done = lock(args).env("LOCK_URL", server.url()).with_stdin().stdout(closed()).finish();
        done.expect(73, &["the answer can't be written to stdout"]);
        eventually("it is given back", || !is_held(server, "no-reader"));
    }
}

#[cfg(target_os = "linux")]
fn stdout_full(server: &Owned) {
    let url = server.url();
    for args in [
        &["man"] as &[&str],
        &["completions", "zsh"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["status", "free", "--on", url],
        &["status", "free", "--json", "--on", url],
        &["info", "--on", url],
        &["check", "--on", url],
        &["init", "--yes", "--on", url],
        &["break", "free", "--yes", "--on", url],
        &["schema", "--on", "mysql://h/d"],
    ] {
        lock(args).redirected(">/dev/full").finish().expect(73, &["can't be written to stdout"]);
    }
    // If the command itself can't write to stdout, the status does not change.
    run(url, "n", &[], "true").redirected(">/dev/full").finish().expect(0, &[]);
}
