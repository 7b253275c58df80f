//! Waiting for the lock, or not.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use lock_conformance::{Data, assert_in_time};
use lock_test_servers::Owned;
use rustix::process::Signal;

use super::OnServer;
use super::call::{LIMIT, Running, eventually, run};

pub(crate) const CASES: &[OnServer] = &[
    ("--no-wait gives 75 and names the holder", no_wait),
    ("--wait gives 75 when it is over, and names the holder", wait_over),
    ("--wait gets the lock when it is released", wait_granted),
    ("without either flag the wait has no end", for_ever),
    ("a signal ends the wait and leaves nothing behind", withdrawn),
    ("a signal that comes with the grant leaves nothing behind either", withdrawn_when_granted),
    ("with --wait a server that comes late is good enough", late_server),
    ("a service manager is told of the wait", service),
];

/// Holds the lock until it is signalled.
pub(crate) fn hold(server: &Owned, name: &str, flags: &[&str]) -> Running {
    let holder = run(server.url(), name, flags, "echo held; exec sleep 100").start();
    assert_eq!(holder.line(), "held");
    holder
}

/// Checks with the next holder that the file does not change any more: no part of the last holder's command writes to
/// it.
#[track_caller]
pub(crate) fn next_finds_it_unchanged(server: &Owned, name: &str, file: &str) {
    let script = format!("wc -l <{file}; sleep 0.3; wc -l <{file}");
    let next = run(server.url(), name, &["--wait", "20s"], &script).finish();
    next.expect(0, &[]);
    let lines: Vec<u32> = next.stdout.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(lines.len() == 2 && lines[0] > 1 && lines[0] == lines[1], "{lines:?}");
}

fn no_wait(server: &Owned) {
    let holder = hold(server, "no-wait", &[]);
    let done = run(server.url(), "no-wait", &["--no-wait"], "echo ran").finish();
    done.expect(
        75,
        &["\"no-wait\" not acquired: held by", &format!(" pid {} sh", holder.id()), "lease ends in"],
    );
    assert_eq!(done.stdout, "");
    drop(holder);
    let _labelled = hold(server, "no-wait labelled", &["--label", "the nightly build"]);
    let done = run(server.url(), "no-wait labelled", &["--no-wait"], "true").finish();
    done.expect(75, &["held by the nightly build"]);
}

fn wait_over(server: &Owned) {
    let holder = hold(server, "wait-over", &[]);
    let done = run(server.url(), "wait-over", &["--wait", "2s"], "echo ran").finish();
    done.expect(75, &["\"wait-over\" not acquired within 2 s: held by", &format!(" pid {} sh", holder.id())]);
    // While it waited it said one line.
    assert_eq!(done.stderr.lines().count(), 2, "{done:?}");
    let first = done.stderr.lines().next().unwrap();
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/');
    assert!(
        first.starts_with(&format!("lock: waiting for \"wait-over\" on redis {address}: held by ")),
        "{first}"
    );
    assert!(first.contains(&format!(" pid {} sh for ", holder.id())), "{first}");
    assert_eq!(done.stdout, "");
    assert!(done.lasted >= Duration::from_secs(2), "{done:?}");
    assert_in_time!(done.took < Duration::from_secs(6), "{done:?}");
}

fn wait_granted(server: &Owned) {
    let holder = hold(server, "wait-granted", &[]);
    let waiter = run(server.url(), "wait-granted", &["--wait", "20s"], "echo mine").start();
    eventually("the waiter waits", || waits(server, "wait-granted"));
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "mine\n"), "{done:?}");
}

fn for_ever(server: &Owned) {
    let holder = hold(server, "for-ever", &[]);
    let waiter = run(server.url(), "for-ever", &[], "echo mine").start();
    eventually("the waiter waits", || waits(server, "for-ever"));
    holder.signal(Signal::TERM);
    holder.finish();
    assert_eq!(waiter.finish().stdout, "mine\n");
}

fn withdrawn(server: &Owned) {
    let holder = hold(server, "withdrawn", &[]);
    let before = keys(server, "withdrawn");
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::USR1, 138)]
    {
        let waiter = run(server.url(), "withdrawn", &["--wait", "20s"], "echo ran").start();
        eventually("the waiter waits", || waits(server, "withdrawn"));
        waiter.signal(signal);
        let done = waiter.finish();
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (status, "", ""));
        assert_in_time!(done.took < Duration::from_secs(2), "{done:?}");
        eventually("no client waits", || !waits(server, "withdrawn"));
    }
    holder.signal(Signal::TERM);
    holder.finish();
    assert!(
        keys(server, "withdrawn").len() <= before.len(),
        "{before:?} became {:?}",
        keys(server, "withdrawn")
    );
    run(server.url(), "withdrawn", &["--no-wait"], "true").finish().expect(0, &[]);
}

fn withdrawn_when_granted(server: &Owned) {
    let mut connection = connection(server);
    // This call makes the server know the script, so that the attempt below is a single request.
    run(server.url(), "granted", &[], "true").finish().expect(0, &[]);
    redis::cmd("CLIENT").arg("PAUSE").arg(60_000).arg("WRITE").exec(&mut connection).unwrap();
    let waiter = run(server.url(), "granted", &[], "echo ran").start();
    eventually("the attempt is at the server", || {
        let info: String = redis::cmd("INFO").arg("clients").query(&mut connection).unwrap();
        info.contains("blocked_clients:1")
    });
    waiter.signal(Signal::STOP);
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut connection).unwrap();
    let mut held = || redis::cmd("EXISTS").arg("granted").query::<bool>(&mut connection).unwrap();
    eventually("the lock is granted", &mut held);
    waiter.signal(Signal::TERM);
    waiter.signal(Signal::CONT);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str()), (143, ""), "{done:?}");
    assert!(!held());
}

fn late_server(server: &Owned) {
    server.stop().unwrap();
    run(server.url(), "late", &["--no-wait"], "echo ran").finish().expect(69, &[]);
    let waiter = run(server.url(), "late", &["--wait", "20s"], "echo ran").start();
    server.restart(Data::Kept).unwrap();
    assert_eq!(waiter.finish().stdout, "ran\n");
}

/// As systemd listens to a service with Type=notify.
fn service(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let told = || {
        let mut bytes = [0; 4096];
        let read = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    };
    let holder = hold(server, "service", &["--label", "the first"]);
    let waiter = run(server.url(), "service", &["--quiet"], "exit 3").env("NOTIFY_SOCKET", &path).start();
    let first = told();
    assert!(first.starts_with("STATUS=waiting for \"service\" on redis 127.0.0.1:"), "{first}");
    assert!(first.ends_with("\nEXTEND_TIMEOUT_USEC=60000000"), "{first}");
    let second = told();
    assert!(second.contains(": held by the first for "), "{second}");
    holder.signal(Signal::TERM);
    waiter.finish().expect(3, &[]);
    assert!(told().starts_with("STATUS=holds \"service\" on redis 127.0.0.1:"));
}

/// Returns the keys of this lock on the server.
fn keys(server: &Owned, name: &str) -> Vec<String> {
    redis::cmd("KEYS").arg(format!("{name}*")).query(&mut connection(server)).unwrap()
}

/// Returns whether a client listens for a release of this lock.
pub(crate) fn waits(server: &Owned, name: &str) -> bool {
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").arg(format!("*{name}*")).query(&mut connection(server)).unwrap();
    !channels.is_empty()
}

/// Returns whether a holder is told at once of a break. Until a moment after its grant it is told by its next request.
pub(crate) fn is_told_of_breaks(server: &Owned) -> bool {
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").arg("*lock~r").query(&mut connection(server)).unwrap();
    !channels.is_empty()
}

/// Opens a connection of the test's own to the server.
pub(crate) fn connection(server: &Owned) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}
