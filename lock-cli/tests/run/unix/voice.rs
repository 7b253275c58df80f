//! The messages of `lock run` about itself: none, words or JSON; and lines for the shell.

use lock_test_servers::Owned;
use rustix::process::Signal;
use serde_json::Value;

use super::OnServer;
use super::call::{Done, eventually, run, shell};
use super::waits::{connection, hold, waits};

pub(crate) const CASES: &[OnServer] = &[
    ("--quiet says nothing of a wait or of another holder", quiet),
    ("--quiet still says that the lock was lost", quiet_and_lost),
    ("--json says everything as objects", json),
    ("--json says why a call has failed", json_failure),
    ("-c runs a line by the shell", line),
    ("--max-hold has an exit status of its own, which a call can set", max_hold_status),
];

fn quiet(server: &Owned) {
    let holder = hold(server, "quiet", &[]);
    for flags in [&["--no-wait", "-q"] as &[&str], &["--wait", "1s", "--quiet"]] {
        let done = run(server.url(), "quiet", flags, "echo ran").finish();
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (75, "", ""));
    }
    let waiter = run(server.url(), "quiet", &["--quiet"], "echo ran; echo err >&2").start();
    eventually("the waiter waits", || waits(server, "quiet"));
    holder.signal(Signal::TERM);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", "err\n"));
}

fn quiet_and_lost(server: &Owned) {
    let holder = hold(server, "quiet-lost", &["--quiet", "--ttl", "1s"]);
    redis::cmd("DEL").arg("quiet-lost").exec(&mut connection(server)).unwrap();
    holder.finish().expect(74, &["\"quiet-lost\" was lost"]);
    run("redis://127.0.0.1:1", "n", &["--quiet"], "true").finish().expect(69, &["can't be reached"]);
}

fn events(done: &Done) -> Vec<Value> {
    done.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(server: &Owned) {
    let holder = hold(server, "json", &["--label", "the first"]);
    let waiter = run(server.url(), "json", &["--json"], "echo $LOCK_TOKEN").start();
    let waiting: Value = serde_json::from_str(&waiter.complaint()).unwrap();
    assert!(waiting["event"] == "waiting" && waiting["name"] == "json", "{waiting}");
    assert!(waiting["holder"]["label"] == "the first" && waiting["waited_ms"].is_u64(), "{waiting}");
    assert!(waiting["server"].as_str().unwrap().starts_with("redis 127.0.0.1:"), "{waiting}");
    holder.signal(Signal::TERM);
    let done = waiter.finish();
    let events = events(&done);
    assert!(
        events[0]["event"] == "held" && events[1]["event"] == "released" && events.len() == 2,
        "{done:?}"
    );
    assert_eq!(events[0]["token"].as_u64(), done.stdout.trim().parse().ok());
}

fn json_failure(server: &Owned) {
    let holder = hold(server, "json-failure", &["--json", "--ttl", "1s"]);
    let held: Value = serde_json::from_str(&holder.complaint()).unwrap();
    assert_eq!(held["event"], "held");
    let done = run(server.url(), "json-failure", &["--no-wait", "--json"], "true").finish();
    let failed = &events(&done)[0];
    assert!(failed["event"] == "failed" && failed["status"] == 75 && done.status == 75, "{done:?}");
    assert!(failed["message"].as_str().unwrap().contains("not acquired"), "{failed}");
    redis::cmd("DEL").arg("json-failure").exec(&mut connection(server)).unwrap();
    let done = holder.finish();
    let events = events(&done);
    assert!(events[0]["event"] == "lost" && events[0]["reason"] == "gone", "{done:?}");
    assert!(events[1]["event"] == "failed" && events[1]["status"] == 74 && done.status == 74, "{done:?}");
}

fn line(server: &Owned) {
    let script = "\"$LOCK\" run --name line -c 'echo \"$LOCK_NAME\" | tr a-z A-Z; exit 3'";
    let done = shell(script).env("LOCK_URL", server.url()).finish();
    assert_eq!((done.status, done.stdout.as_str()), (3, "LINE\n"), "{done:?}");
}

fn max_hold_status(server: &Owned) {
    // A command that ends with the same status by itself.
    let own = run(server.url(), "status", &["--max-hold", "20s"], "exit 124").finish();
    assert_eq!((own.status, own.stderr.as_str()), (124, ""));
    let flags = ["--max-hold", "300ms", "--max-hold-exit-code", "99"];
    run(server.url(), "status", &flags, "sleep 100").finish().expect(99, &["--max-hold"]);
    run(server.url(), "status", &flags[..2], "sleep 100").finish().expect(124, &["--max-hold"]);
}
