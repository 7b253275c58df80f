//! The examples in other languages do what they say. They are *not run* where their language is missing.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::Signal;
use tempfile::TempDir;

use super::WhereAllowed;
use super::call::{Call, eventually, lock, program};
use super::waits::{connection, waits};
use super::watch::SOON;

pub(crate) const CASES: &[WhereAllowed] = &[
    ("the example in bash holds, is told of a loss, and leaves no lock behind", |server| {
        works(server, "bash", "hold.bash")
    }),
    ("the example in Python holds, is told of a loss, and leaves no lock behind", |server| {
        works(server, "python3", "hold.py")
    }),
    ("the example in Node holds, is told of a loss, and leaves no lock behind", |server| {
        works(server, "node", "hold.mjs")
    }),
    ("the example of several steps holds, is told of a loss, and leaves no lock behind", steps),
];

fn works(server: &Owned, language: &str, file: &str) -> Result<(), String> {
    is_there(language)?;
    let example = Example::of(server, language, file);
    to_its_end(server, &example, "1");
    loses(server, &example);
    is_killed(server, &example, &["endless", "1000"]);
    Ok(())
}

/// The example ends with 0, and its lock was held meanwhile.
fn to_its_end(server: &Owned, example: &Example, steps: &str) {
    let done = example.call(&["ends", steps]).finish();
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    assert!(done.stdout.starts_with("step 1 with token 1"), "{done:?}");
    assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    assert!(!is_held(server, "ends"));
    // It waits for its turn.
    let holder = super::waits::hold(server, "ends", &["--label", "the first"]);
    let waiting = example.call(&["ends", steps]).start();
    eventually("the example waits", || waits(server, "ends"));
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    assert!(waiting.line().starts_with("step 1 with token 1"));
    waiting.finish().expect(0, &[]);
}

fn loses(server: &Owned, example: &Example) {
    let running = example.call(&["loses", "1000"]).start();
    assert!(running.line().starts_with("step 1 with token 1"));
    assert!(is_held(server, "loses"));
    // The holder is told by a message of the server.
    assert_eq!(lock(["break", "--yes", "--on", server.url(), "loses"]).finish().status, 0);
    let broken = Instant::now();
    let mut last = running.line();
    while last.starts_with("step") {
        assert!(broken.elapsed() < SOON, "{last}");
        last = running.line();
    }
    assert_eq!(last, "stopped: the lock is lost");
    running.finish().expect(74, &["lock: \"loses\" was lost: it was revoked"]);
    assert!(!is_held(server, "loses"));
}

fn is_killed(server: &Owned, example: &Example, args: &[&str]) {
    let running = example.call(args).start();
    running.line();
    let name = args[0];
    assert!(is_held(server, name));
    running.signal(Signal::KILL);
    let killed = Instant::now();
    eventually("the lock is free", || !is_held(server, name));
    assert_in_time!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
}

fn steps(server: &Owned) -> Result<(), String> {
    let example = Example::of(server, "sh", "steps.sh");
    let done = example.call(&["steps"]).finish();
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(
        lines[0].starts_with("build with token 1") && lines[1].starts_with("deploy with token 1"),
        "{done:?}"
    );
    assert_eq!(&lines[2..], ["done"]);
    let running = example.call(&["steps"]).start();
    running.line();
    redis::cmd("DEL").arg("steps").exec(&mut connection(server)).unwrap();
    let done = running.finish();
    done.expect(74, &["\"steps\" was lost: "]);
    assert!(!done.stdout.contains("done"), "{done:?}");
    is_killed(server, &example, &["steps"]);
    Ok(())
}

/// An example with all that it needs to be started.
struct Example<'a> {
    server: &'a Owned,
    language: &'a str,
    file: String,
    /// The folder on the `PATH` with our program.
    folder: TempDir,
}

impl<'a> Example<'a> {
    fn of(server: &'a Owned, language: &'a str, file: &str) -> Example<'a> {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_lock"), folder.path().join("lock")).unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
        Example { server, language, file: file.display().to_string(), folder }
    }

    fn call(&self, args: &[&str]) -> Call {
        let path = std::env::var("PATH").unwrap_or_default();
        program(self.language, [self.file.as_str()].iter().chain(args))
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env("LOCK_URL", self.server.url())
    }
}

fn is_held(server: &Owned, name: &str) -> bool {
    lock(["status", "--on", server.url(), name]).finish().status == 0
}

/// Returns whether this machine has the language.
fn is_there(language: &str) -> Result<(), String> {
    let looked = Command::new(language).arg("--version").stdout(Stdio::null()).status();
    match looked {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{language} can't be run: {status}")),
        Err(e) => Err(format!("{language} can't be run: {e}")),
    }
}
