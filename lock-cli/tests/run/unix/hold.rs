//! `lock hold`: a holder for any language.

use std::time::{Duration, Instant};

use lock_conformance::{Data, assert_in_time};
use lock_test_servers::Owned;
use rustix::process::Signal;
use serde_json::Value;

use super::OnServer;
use super::call::{Call, Running, eventually, lock, run};
use super::waits::{connection, waits};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("a hold lasts until stdin is closed, and says that it was held", until_closed),
    ("a hold says as JSON what happens", as_json),
    ("a signal ends a hold, which was held all the same", until_signalled),
    ("a hold without a stdin to be closed is refused", without_stdin),
    ("a hold that is closed while it waits leaves nothing behind", closed_while_waiting),
    ("a hold whose lock is lost says so and ends with 74", lost),
    ("a hold says when renewals fail and when they work again", trouble),
    ("a hold that is broken keeps others away until stdin is closed", broken),
    ("--max-hold ends a hold with 124", max_hold),
    ("a hold that is not acquired ends as a run does", not_acquired),
];

fn call(server: &Owned, name: &str, flags: &[&str]) -> Call {
    lock(["hold", "--on", server.url(), name].iter().chain(flags)).with_stdin()
}

fn is_held(server: &Owned, name: &str) -> bool {
    lock(["status", "--on", server.url(), name]).finish().status == 0
}

/// Returns the value of a field in a line of words.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn started(server: &Owned, name: &str, flags: &[&str]) -> Running {
    let holder = call(server, name, flags).start();
    let line = holder.line();
    assert!(line.starts_with("held token="), "{line}");
    holder
}

fn until_closed(server: &Owned) {
    let mut holder = call(server, "until-closed", &[]).start();
    let line = holder.line();
    let status = lock(["status", "--json", "until-closed", "--on", server.url()]).finish();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let token: u64 = field(&line, "token").unwrap().parse().unwrap();
    assert_eq!(status["holder"]["token"].as_u64(), Some(token), "{line} {status}");
    assert!(status["holder"]["label"].as_str().unwrap().ends_with(" hold"), "{status}");
    let valid: u64 = field(&line, "valid_ms").unwrap().parse().unwrap();
    assert!((20_000..=30_000).contains(&valid), "{line}");
    holder.tell("what is written there does not matter");
    holder.close_stdin();
    let done = holder.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "released\n", ""), "{done:?}");
    assert!(!is_held(server, "until-closed"));
}

fn as_json(server: &Owned) {
    let mut first = started(server, "as json", &["--label", "the first"]);
    let mut second = call(server, "as json", &["--json"]).start();
    let waiting: Value = serde_json::from_str(&second.line()).unwrap();
    assert!(waiting["event"] == "waiting" && waiting["holder"]["label"] == "the first", "{waiting}");
    first.close_stdin();
    first.finish().expect(0, &[]);
    let held: Value = serde_json::from_str(&second.line()).unwrap();
    assert!(held["event"] == "held" && held["name"] == "as json" && held["token"].is_u64(), "{held}");
    assert!(held["valid_ms"].as_u64().is_some_and(|valid| valid <= 30_000), "{held}");
    second.close_stdin();
    let done = second.finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "{\"event\":\"released\",\"name\":\"as json\"}\n"));
    assert_eq!(done.stderr, "");
}

fn until_signalled(server: &Owned) {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let holder = started(server, "until-signalled", &[]);
        // This one asks for nothing.
        holder.signal(Signal::USR1);
        holder.signal(signal);
        let done = holder.finish();
        assert_eq!((done.status, done.stdout.as_str()), (0, "released\n"), "{done:?}");
        assert!(!is_held(server, "until-signalled"));
    }
}

fn without_stdin(server: &Owned) {
    let done = lock(["hold", "--on", server.url(), "without-stdin"]).finish();
    done.expect(64, &["stdin was closed before"]);
    assert_eq!(done.stdout, "");
    assert!(!is_held(server, "without-stdin"));
}

fn closed_while_waiting(server: &Owned) {
    let mut holder = started(server, "closed-while-waiting", &[]);
    let mut waiter = call(server, "closed-while-waiting", &[]).start();
    eventually("the waiter waits", || waits(server, "closed-while-waiting"));
    waiter.close_stdin();
    let done = waiter.finish();
    done.expect(64, &["stdin was closed before"]);
    assert_eq!(done.stdout, "");
    let waiter = call(server, "closed-while-waiting", &["--quiet"]).start();
    eventually("the waiter waits", || waits(server, "closed-while-waiting"));
    waiter.signal(Signal::TERM);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (143, "", ""));
    holder.close_stdin();
    holder.finish().expect(0, &[]);
    run(server.url(), "closed-while-waiting", &["--no-wait"], "true").finish().expect(0, &[]);
}

fn lost(server: &Owned) {
    let holder = started(server, "hold-lost", &["--ttl", "1s"]);
    redis::cmd("DEL").arg("hold-lost").exec(&mut connection(server)).unwrap();
    // Its stdin stays open: it ends by itself.
    let done = holder.finish();
    assert_eq!(done.stdout, "lost reason=gone\n");
    done.expect(74, &["\"hold-lost\" was lost: the server no longer knows of it"]);
    assert_in_time!(done.took < SOON, "{done:?}");
}

fn trouble(server: &Owned) {
    let mut holder = started(server, "trouble", &["--ttl", "9s"]);
    server.stop().unwrap();
    let line = holder.line();
    assert!(line.starts_with("trouble error="), "{line}");
    server.restart(Data::Kept).unwrap();
    let line = loop {
        let line = holder.line();
        if !line.starts_with("trouble error=") {
            break line;
        }
    };
    // If the server comes back too late, the lease has ended.
    assert_in_time!(!line.starts_with("lost"), "{line}");
    assert_eq!(line, "renewed");
    holder.close_stdin();
    let done = holder.finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "released\n"), "{done:?}");
}

fn broken(server: &Owned) {
    let mut holder = started(server, "hold-broken", &["--ttl", "60s"]);
    let next = run(server.url(), "hold-broken", &["--wait", "40s"], "echo next").start();
    eventually("the next one waits", || waits(server, "hold-broken"));
    assert_eq!(lock(["break", "hold-broken", "--yes", "--on", server.url()]).finish().status, 0);
    assert_eq!(holder.line(), "lost reason=revoked");
    run(server.url(), "hold-broken", &["--no-wait"], "echo early").finish().expect(75, &[]);
    holder.close_stdin();
    let ended = Instant::now();
    holder.finish().expect(74, &["\"hold-broken\" was lost: it was revoked"]);
    assert_eq!(next.line(), "next");
    assert_in_time!(ended.elapsed() < SOON, "the next has it after {:?}", ended.elapsed());
    next.finish().expect(0, &[]);
}

fn max_hold(server: &Owned) {
    let holder = started(server, "hold-max", &["--max-hold", "500ms"]);
    let done = holder.finish();
    assert_eq!(done.stdout, "lost reason=max_hold\n");
    done.expect(124, &["\"hold-max\" was held for as long as --max-hold allows"]);
    assert!(done.lasted >= Duration::from_millis(450), "{done:?}");
    assert!(!is_held(server, "hold-max"));
}

fn not_acquired(server: &Owned) {
    let _holder = started(server, "not-acquired", &["--label", "the first"]);
    let done = call(server, "not-acquired", &["--no-wait"]).finish();
    done.expect(75, &["\"not-acquired\" not acquired: held by the first"]);
    assert_eq!(done.stdout, "");
    let done = call(server, "not-acquired", &["--wait", "400ms", "-E", "9", "-q"]).finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (9, "", ""));
    lock(["hold", "--on", "redis://127.0.0.1:1", "n"])
        .with_stdin()
        .finish()
        .expect(69, &["can't be reached"]);
}
