// Proves: run-unread
//! Calls whose stdout or stderr is not read: the pipe is full.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use serde_json::Value;

use super::OnServer;
use super::call::{Done, Running, eventually, lock, run};
use super::waits::{hold, waits};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("a waiter whose stderr is not read gets the lock", waiter),
    ("a waiter whose stderr is not read is ended by signals", waiter_signalled),
    ("--no-wait ends though stderr is not read", no_wait),
    ("a holder whose stderr is not read keeps its lock", holder),
    ("a hold that can't be told is given back", hold_untold),
    ("a hold that is told late is held", hold_told_late),
    ("a hold that can't be told is ended by signals", hold_signalled),
    ("an acquire that can't be told is given back", acquire_untold),
    ("a watch that is not read is ended by signals", watch_signalled),
    ("a watch that is read late tells the present holder", watch_read_late),
    ("a status that is not read has a status of its own", status_unread),
    ("a list waits for its reader", list_read_late),
    ("the last message is waited for", last_message),
    ("an output that refuses what it has no room for is waited for", refusing),
];

/// The longest time that an answer is waited for, and the last messages after it.
const ANSWER: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(2);

/// A pipe without room for a single byte.
struct Full {
    reader: PipeReader,
    /// The number of bytes that it was filled with.
    filled: usize,
}

/// Returns the end of a full pipe that the program gets, and the other one.
fn full() -> (PipeWriter, Full) {
    let (reader, mut writer) = pipe().unwrap();
    refuses(&writer, true);
    let mut filled = 0;
    // A write of several bytes may be refused where there is room for a single one.
    for size in [4096, 1] {
        loop {
            match writer.write(&vec![b'.'; size]) {
                Ok(written) => filled += written,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => panic!("{e}"),
            }
        }
    }
    refuses(&writer, false);
    (writer, Full { reader, filled })
}

/// Sets whether the pipe refuses what it has no room for, instead of waiting.
fn refuses(pipe: &PipeWriter, refuses: bool) {
    let mut flags = fcntl_getfl(pipe).unwrap();
    flags.set(OFlags::NONBLOCK, refuses);
    fcntl_setfl(pipe, flags).unwrap();
}

impl Full {
    /// Reads what it was filled with, and from then on lines.
    fn read(self) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::channel();
        let mut file = File::from(OwnedFd::from(self.reader));
        file.read_exact(&mut vec![0; self.filled]).unwrap();
        thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(file)).map_while(Result::ok) {
                sender.send(line).unwrap_or_default();
            }
        });
        lines
    }
}

fn is_held(server: &Owned, name: &str) -> bool {
    lock(["status", "--on", server.url(), name]).finish().status == 0
}

fn waiter(server: &Owned) {
    for flags in [&[] as &[&str], &["--json"]] {
        let holder = hold(server, "unread-waiter", &[]);
        let (stderr, _unread) = full();
        let waiter = run(server.url(), "unread-waiter", flags, "echo mine").stderr(stderr).start();
        eventually("the waiter waits", || waits(server, "unread-waiter"));
        // Until it says for whom it waits.
        thread::sleep(Duration::from_secs(1));
        holder.signal(Signal::TERM);
        assert_eq!(waiter.line(), "mine");
        let done = waiter.finish();
        assert_eq!(done.status, 0, "{done:?}");
        assert_in_time!(done.took < LAST + SOON, "{done:?}");
    }
}

fn waiter_signalled(server: &Owned) {
    let _holder = hold(server, "unread-signalled", &[]);
    let (stderr, _unread) = full();
    let waiter = run(server.url(), "unread-signalled", &[], "echo mine").stderr(stderr).start();
    eventually("the waiter waits", || waits(server, "unread-signalled"));
    thread::sleep(Duration::from_secs(1));
    waiter.signal(Signal::TERM);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str()), (143, ""), "{done:?}");
    assert_in_time!(done.took < LAST + SOON, "{done:?}");
}

fn no_wait(server: &Owned) {
    let _holder = hold(server, "unread-no-wait", &[]);
    let (stderr, _unread) = full();
    let done = run(server.url(), "unread-no-wait", &["--no-wait"], "true").stderr(stderr).finish();
    assert_eq!(done.status, 75, "{done:?}");
    assert_in_time!(done.took < LAST + SOON, "{done:?}");
}

/// The command runs for several times the ttl.
fn holder(server: &Owned) {
    for flag in ["--verbose", "--json"] {
        let (stderr, _unread) = full();
        let flags = ["--no-wait", "--ttl", "1s", flag];
        let done = run(server.url(), "unread-holder", &flags, "sleep 3; echo done").stderr(stderr).finish();
        assert_eq!((done.status, done.stdout.as_str()), (0, "done\n"), "{flag} {done:?}");
    }
}

/// Starts a hold whose stdout has no room. Its first line waits when this returns.
fn untold(server: &Owned, name: &str) -> (Running, Full) {
    let (stdout, unread) = full();
    let holder =
        lock(["hold", name, "--ttl", "1s", "--on", server.url()]).with_stdin().stdout(stdout).start();
    eventually("it is held", || is_held(server, name));
    (holder, unread)
}

fn hold_untold(server: &Owned) {
    let (holder, unread) = untold(server, "untold");
    let done = holder.finish();
    done.expect(73, &["can't be written to stdout: its reader does not read"]);
    assert_in_time!(done.lasted < ANSWER + LAST + SOON, "{done:?}");
    assert!(!is_held(server, "untold"), "{done:?}");
    // The pipe has ended, without a line that says that it is held.
    assert_eq!(unread.read().recv().ok(), None);
}

/// The event is read after three times the ttl.
fn hold_told_late(server: &Owned) {
    let (mut holder, unread) = untold(server, "told-late");
    thread::sleep(Duration::from_secs(3));
    let lines = unread.read();
    let line = lines.recv().unwrap();
    let status = lock(["status", "--json", "told-late", "--on", server.url()]).finish();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let token = format!("held token={} ", status["holder"]["token"]);
    assert!(line.starts_with(&token), "{line} {status}");
    holder.close_stdin();
    assert_eq!(lines.recv().unwrap(), "released");
    holder.finish().expect(0, &[]);
}

fn hold_signalled(server: &Owned) {
    let (holder, _unread) = untold(server, "untold-signalled");
    holder.signal(Signal::TERM);
    let done = holder.finish();
    assert_eq!(done.status, 0, "{done:?}");
    assert_in_time!(done.took < LAST + SOON, "{done:?}");
    assert!(!is_held(server, "untold-signalled"));
}

fn acquire_untold(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let acquire = || {
        let (stdout, unread) = full();
        let call = lock(["acquire", "acquire-untold", "--parent", &std::process::id().to_string()])
            .env("LOCK_URL", server.url())
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdout(stdout)
            .start();
        eventually("it is held", || is_held(server, "acquire-untold"));
        (call, unread)
    };
    let (call, _unread) = acquire();
    call.finish().expect(73, &["can't be written to stdout: its reader does not read"]);
    eventually("it is given back", || !is_held(server, "acquire-untold"));
    let (call, _unread) = acquire();
    call.signal(Signal::TERM);
    assert_eq!(call.finish().status, 143);
    eventually("it is given back", || !is_held(server, "acquire-untold"));
}

fn watch_signalled(server: &Owned) {
    let (stdout, _unread) = full();
    let watch = lock(["watch", "unread", "--on", server.url()]).stdout(stdout).start();
    thread::sleep(Duration::from_secs(1));
    watch.signal(Signal::TERM);
    let done = watch.finish();
    assert_eq!(done.status, 143, "{done:?}");
    assert_in_time!(done.took < LAST + SOON, "{done:?}");
}

fn watch_read_late(server: &Owned) {
    let (stdout, unread) = full();
    let _watch = lock(["watch", "read-late", "--on", server.url()]).stdout(stdout).start();
    thread::sleep(ANSWER + LAST);
    let _holder = hold(server, "read-late", &["--label", "the second"]);
    let lines = unread.read();
    assert_eq!(lines.recv().unwrap(), "\"read-late\" is free");
    assert!(lines.recv().unwrap().starts_with("\"read-late\" is held by the second"));
}

fn status_unread(server: &Owned) {
    let status = || {
        let (stdout, unread) = full();
        (lock(["status", "n", "--json", "--on", server.url()]).stdout(stdout).start(), unread)
    };
    let (call, _unread) = status();
    let done: Done = call.finish();
    done.expect(73, &["can't be written to stdout: its reader does not read"]);
    assert_in_time!(done.lasted < ANSWER + LAST + SOON, "{done:?}");
    let (call, _unread) = status();
    call.signal(Signal::TERM);
    assert_eq!(call.finish().status, -15);
}

fn list_read_late(server: &Owned) {
    let _holder = hold(server, "listed", &[]);
    let (stdout, unread) = full();
    let list = lock(["list", "--on", server.url()]).stdout(stdout).start();
    thread::sleep(ANSWER + LAST);
    assert!(unread.read().recv().unwrap().starts_with("\"listed\" is held by "));
    list.finish().expect(0, &[]);
}

fn last_message(server: &Owned) {
    let _holder = hold(server, "last-message", &["--label", "the first"]);
    let (stderr, unread) = full();
    let call = run(server.url(), "last-message", &["--no-wait"], "true").stderr(stderr).start();
    thread::sleep(Duration::from_millis(700));
    let said = unread.read().recv().unwrap();
    assert!(said.starts_with("lock: \"last-message\" not acquired: held by the first"), "{said}");
    assert_eq!(call.finish().status, 75);
}

/// As after another program has set its end of the same pipe or terminal so.
fn refusing(server: &Owned) {
    let (stdout, unread) = full();
    refuses(&stdout, true);
    let call = lock(["status", "refusing", "--on", server.url()]).stdout(stdout).start();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(unread.read().recv().unwrap(), "\"refusing\" is free");
    call.finish().expect(1, &[]);
}
