//! `lock list` and `lock watch`.

use std::io::BufRead;

use lock_conformance::assert_in_time;
use lock_test_servers::{Absence, Etcd, Owned, Settings};
use rustix::process::Signal;
use serde_json::Value;

use super::call::{Done, eventually, lock, run};
use super::waits::{connection, hold};
use super::watch::SOON;
use super::{OnServer, WherePossible};

pub(crate) const CASES: &[OnServer] = &[
    ("list shows the locks that are held, by the beginning of their names", list),
    ("a server that can't list says so", unlisted),
    ("watch shows each change of the holder until a signal comes", watch),
    // Proves: run-unread
    ("a watch ends when its reader has gone", watch_unread),
    ("watch as JSON, over an outage of the server", watch_json),
];

/// Cases on a server that knows the waiters.
pub(crate) const ON_ETCD: &[WherePossible] =
    &[("list shows the waiters where the server knows them", waiters)];

fn list_on(server: &Owned, args: &[&str]) -> Done {
    lock(["list"].iter().chain(args)).env("LOCK_URL", server.url()).finish()
}

fn list(server: &Owned) {
    let none = list_on(server, &[]);
    assert_eq!((none.status, none.stdout.as_str(), none.stderr.as_str()), (0, "", ""));
    let _first = hold(server, "deploy/a", &["--label", "the first"]);
    let _second = hold(server, "deploy/b", &["--label", "the second"]);
    let _other = hold(server, "report", &["--label", "the other"]);
    run(server.url(), "deploy/free", &[], "true").finish().expect(0, &[]);
    // What is no lock is not listed.
    redis::cmd("SET").arg("deploy/cache").arg("of another program").exec(&mut connection(server)).unwrap();
    let lines: Vec<String> = list_on(server, &["deploy/"]).stdout.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, (name, holder)) in lines.iter().zip([("deploy/a", "the first"), ("deploy/b", "the second")]) {
        assert!(line.starts_with(&format!("\"{name}\" is held by {holder} for ")), "{line}");
    }
    let all = list_on(server, &["--json"]);
    let names: Vec<Value> = all.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = names.iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["deploy/a", "deploy/b", "report"]);
}

fn unlisted(server: &Owned) {
    let url = format!("{}?layout=redisson&fenced=1", server.url().trim_end_matches('/'));
    lock(["list", "--on", &url]).finish().expect(64, &["can't list its locks"]);
}

fn waiters() -> Result<(), String> {
    let server = Owned::start(&Etcd, &Settings::default()).map_err(Absence::reason)?;
    let holder = hold(&server, "queue", &["--label", "the holder"]);
    let waiter = run(server.url(), "queue", &[], "true").start();
    eventually("the waiter is listed", || list_on(&server, &[]).stdout.ends_with("; waiters 1\n"));
    let line = list_on(&server, &["que"]).stdout;
    assert!(line.starts_with("\"queue\" is held by the holder"), "{line}");
    holder.signal(Signal::TERM);
    waiter.finish().expect(0, &[]);
    assert_eq!(list_on(&server, &[]).stdout, "");
    Ok(())
}

fn watch(server: &Owned) {
    let watch = lock(["watch", "watched", "--on", server.url()]).start();
    assert_eq!(watch.line(), "\"watched\" is free");
    let holder = hold(server, "watched", &["--label", "the first"]);
    let held = watch.line();
    assert!(held.starts_with("\"watched\" is held by the first for "), "{held}");
    assert!(held.contains(", token 1"), "{held}");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    assert_eq!(watch.line(), "\"watched\" is free");
    watch.signal(Signal::INT);
    let done = watch.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (130, "", ""));
}

fn watch_unread(server: &Owned) {
    let (reader, stdout) = std::io::pipe().unwrap();
    let watch = lock(["watch", "unread", "--on", server.url()]).stdout(stdout).start();
    let mut line = String::new();
    std::io::BufReader::new(reader).read_line(&mut line).unwrap();
    assert_eq!(line, "\"unread\" is free\n");
    // There is no further change.
    let done = watch.finish();
    done.expect(0, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn watch_json(server: &Owned) {
    let watch = lock(["watch", "watched", "--json", "--on", server.url()]).start();
    let next = || serde_json::from_str::<Value>(&watch.line()).unwrap();
    assert_eq!(next()["held"], false);
    server.stop().unwrap();
    assert!(watch.complaint().starts_with("lock: "));
    server.restart(lock_conformance::Data::Kept).unwrap();
    let _holder = hold(server, "watched", &["--label", "the second"]);
    let held = next();
    assert!(held["held"] == true && held["holder"]["label"] == "the second", "{held}");
    watch.signal(Signal::TERM);
    let done = watch.finish();
    // The outage was said once.
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (143, "", ""));
    lock(["watch", "n", "--on", "redis://127.0.0.1:1"]).finish().expect(69, &["can't be reached"]);
}
