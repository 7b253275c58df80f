//! The commands that look at locks and servers; completions and the manual page.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use lock_test_servers::{Absence, Etcd, Owned, Settings};
use rustix::process::Signal;
use serde_json::Value;

use super::call::{Done, eventually, lock, run};
use super::waits::{connection, hold};
use super::{Case, OnServer, WherePossible, redis};

pub(crate) const CASES: &[Case] = &[
    ("completions and the manual page are printed", installation),
    ("a server that is not there ends every look with 69", no_server),
    ("the schema is printed from the URL, whether a server is there or not", schemas),
    ("init asks for --yes before it looks for the server", init),
];

pub(crate) const ON_SERVER: &[OnServer] = &[
    ("status names the holder, and ends with 0 held and 1 free", status),
    ("status as JSON", status_json),
    // Proves: cleaned-text
    ("what another program has written is shown in one line", forged),
    ("info says what the server guarantees", info),
    ("check says what is good and bad", check),
    ("check ends with 69 where locks will not work", check_unfit),
    ("check --strict ends with 69 where locks are weak", check_weak),
    ("a server that needs nothing says so", schema),
    ("init makes what is missing, and says what that was", init_of_new_nodes),
];

/// Cases on a server that knows the waiters.
pub(crate) const ON_ETCD: &[WherePossible] = &[("status names the waiters, in their order", waiters)];

fn on(server: &Owned, args: &[&str]) -> Done {
    lock(args).env("LOCK_URL", server.url()).finish()
}

fn json(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn status(server: &Owned) {
    let free = on(server, &["status", "looked at"]);
    assert_eq!(
        (free.status, free.stdout.as_str()),
        (1, "\"looked at\" is free\nwaiters unknown\n"),
        "{free:?}"
    );
    let holder = hold(server, "looked at", &["--label", "the nightly build"]);
    let held = on(server, &["status", "looked at"]);
    held.expect(0, &[]);
    for what in ["\"looked at\" is held by the nightly build", "lease ends in", "\ntoken ", "\nowner "] {
        assert!(held.stdout.contains(what), "{what}: {held:?}");
    }
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    assert_eq!(on(server, &["status", "looked at"]).status, 1);
}

fn status_json(server: &Owned) {
    let free = &json(&on(server, &["status", "as-json", "--json"]))[0];
    assert!(free["held"] == false && free["holder"].is_null() && free["waiters"].is_null(), "{free}");
    let _holder = hold(server, "as-json", &["--label", "x\"y"]);
    let held = &json(&on(server, &["status", "--json", "as-json"]))[0];
    assert!(held["name"] == "as-json" && held["held"] == true && held["holder"]["label"] == "x\"y", "{held}");
    assert!(held["holder"]["token"].as_u64().is_some_and(|token| token > 1_700_000_000_000_000), "{held}");
    assert!(held["holder"]["expires_in_ms"].as_u64().is_some_and(|left| left <= 30_000), "{held}");
    assert!(held["holder"]["since_ms"].as_u64().is_some_and(|since| since < 60_000), "{held}");
}

/// A value in the form of ours.
fn forged(server: &Owned) {
    // A list finds it by its token.
    run(server.url(), "forged", &["--no-wait"], "true").finish().expect(0, &[]);
    let value = "00000000000000000000000000000007 a\u{1b}[2J\nlock: b\u{9b}2J\u{202e}c";
    redis::cmd("SET").arg("forged").arg(value).arg("PX").arg(60_000).exec(&mut connection(server)).unwrap();
    let url = server.url();
    let (plain, json) = ("a [2J lock: b 2J c", ["--no-wait", "--json"]);
    for (done, says, lines) in [
        (on(server, &["status", "forged"]), format!("\"forged\" is held by {plain} for "), 4),
        (on(server, &["status", "forged", "--json"]), format!("\"label\":\"{plain}\""), 1),
        (on(server, &["list"]), format!("\"forged\" is held by {plain} for "), 1),
        (
            run(url, "forged", &["--no-wait"], "true").finish(),
            format!("not acquired: held by {plain} for "),
            1,
        ),
        (run(url, "forged", &json, "true").finish(), format!("not acquired: held by {plain} for "), 1),
        (on(server, &["break", "forged"]), format!("is held by {plain} for "), 1),
        (on(server, &["break", "forged", "--yes", "--now"]), format!("it was held by {plain} for "), 1),
    ] {
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains(&says), "{says:?}: {done:?}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{done:?}");
        assert_eq!(said.lines().count(), lines, "{done:?}");
    }
}

fn info(server: &Owned) {
    let text = on(server, &["info"]);
    text.expect(0, &[]);
    for what in ["redis 127.0.0.1:", "token", "clock", "data loss", "wake-ups: pushed"] {
        assert!(text.stdout.contains(what), "{what}: {text:?}");
    }
    let row = &json(&on(server, &["info", "--json"]))[0];
    assert!(row["backend"] == "redis" && row["lease"] == "lock" && row["min_ttl_ms"].is_u64(), "{row}");
}

fn check(server: &Owned) {
    let text = on(server, &["check"]);
    text.expect(0, &[]);
    assert!(text.stdout.contains("good     reachable: "), "{text:?}");
    let findings = json(&on(server, &["check", "--json"]));
    assert!(findings.len() > 3 && findings.iter().all(|f| f["level"] != "bad"), "{findings:?}");
}

fn check_unfit(server: &Owned) {
    let denied = ["SETUSER", "unfit", "on", "nopass", "~*", "&*", "+@all", "-set"];
    redis::cmd("ACL").arg(&denied).exec(&mut connection(server)).unwrap();
    let url = server.url().replace("redis://", "redis://unfit:any@");
    let text = lock(["check", "--on", &url]).finish();
    assert_eq!((text.status, text.stderr.as_str()), (69, ""), "{text:?}");
    assert!(text.stdout.contains("\nbad      rights: "), "{text:?}");
    let done = lock(["check", "--json", "--on", &url]).finish();
    assert_eq!(done.status, 69, "{done:?}");
    let findings = json(&done);
    let bad: Vec<&Value> = findings.iter().filter(|finding| finding["level"] == "bad").collect();
    assert!(bad.len() == 1 && bad[0]["subject"] == "rights", "{findings:?}");
    // And indeed locks do not work there.
    run(&url, "unfit", &["--no-wait"], "true").finish().expect(69, &[]);
}

/// The server of the tests writes each grant to its disk.
fn check_weak(server: &Owned) {
    let strong = on(server, &["check", "--strict", "--json"]);
    // How fast the server's clock runs is shown by no single look.
    let findings = json(&strong);
    let weak: Vec<&Value> = findings.iter().filter(|finding| finding["level"] != "good").collect();
    assert!(weak.len() == 1 && weak[0]["subject"] == "clock", "{findings:?}");
    assert_eq!(strong.status, 0, "{strong:?}");
    let mut admin = connection(server);
    for (setting, value) in [("appendonly", "no"), ("save", "")] {
        redis::cmd("CONFIG").arg("SET").arg(setting).arg(value).exec(&mut admin).unwrap();
    }
    let weak = on(server, &["check", "--strict"]);
    assert_eq!((weak.status, weak.stderr.as_str()), (69, ""), "{weak:?}");
    assert!(weak.stdout.contains("\nwarning  persistence: a restart loses everything"), "{weak:?}");
    let info = on(server, &["info"]);
    assert!(info.stdout.contains("a restart loses everything"), "info calls it weak, too: {info:?}");
    on(server, &["check"]).expect(0, &[]);
    // A user that may not ask is told nothing, which is no proof of strength.
    redis::cmd("ACL")
        .arg(&["SETUSER", "unasked", "on", "nopass", "~*", "&*", "+@all", "-config", "-info"])
        .exec(&mut admin)
        .unwrap();
    let url = server.url().replace("redis://", "redis://unasked:any@");
    let unknown = lock(["check", "--strict", "--on", &url]).finish();
    assert!(unknown.stdout.contains("\nunknown  persistence: "), "{unknown:?}");
    assert_eq!(unknown.status, 69, "{unknown:?}");
    lock(["check", "--on", &url]).finish().expect(0, &[]);
}

/// On new nodes of Redlock: until an operator declares them new, none of them votes.
fn init_of_new_nodes(first: &Owned) {
    let (second, third) = (redis(), redis());
    let nodes = [first, &second, &third].map(Owned::address);
    let url = format!("redlock://{}", nodes.join(","));
    run(&url, "new", &["--no-wait"], "true").finish().expect(69, &["lock init"]);
    let done = lock(["init", "--yes", "--on", &url]).finish();
    done.expect(0, &[]);
    let mut made: Vec<&str> = done.stdout.lines().collect();
    made.sort_unstable();
    let mut votes = nodes.map(|node| format!("{node} votes now"));
    votes.sort_unstable();
    assert_eq!(made, votes);
    run(&url, "new", &["--no-wait"], "true").finish().expect(0, &[]);
    let again = lock(["init", "--yes", "--on", &url]).finish();
    assert_eq!((again.status, again.stdout.as_str()), (0, "there was nothing to do\n"));
}

fn waiters() -> Result<(), String> {
    let server = Owned::start(&Etcd, &Settings::default()).map_err(Absence::reason)?;
    let status = || on(&server, &["status", "queue"]);
    assert!(status().stdout.ends_with("\nwaiters 0\n"), "{:?}", status());
    let holder = hold(&server, "queue", &["--label", "the holder"]);
    let waiter = |label| run(server.url(), "queue", &["--label", label], "true").start();
    let first = waiter("the first");
    eventually("the first waits", || status().stdout.ends_with("\nwaiters 1\n  the first\n"));
    let second = waiter("the second");
    eventually("the second waits", || status().stdout.ends_with("\nwaiters 2\n  the first\n  the second\n"));
    let seen = &json(&on(&server, &["status", "queue", "--json"]))[0];
    let labels = seen["waiters"].as_array().unwrap().iter().map(|waiter| waiter["label"].as_str());
    assert!(labels.eq([Some("the first"), Some("the second")]), "{seen}");
    assert_eq!(seen["holder"]["label"], "the holder", "{seen}");
    holder.signal(Signal::TERM);
    for waiter in [first, second] {
        waiter.finish().expect(0, &[]);
    }
    assert!(status().stdout.ends_with("\nwaiters 0\n"), "{:?}", status());
    Ok(())
}

fn schema(server: &Owned) {
    let done = on(server, &["schema"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, ""));
    done.expect(0, &["needs nothing"]);
    on(server, &["init"]).expect(64, &["--yes"]);
    let done = on(server, &["init", "--yes"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "there was nothing to do\n"));
}

fn installation() {
    for (shell, says) in
        [("bash", "complete -F _lock"), ("zsh", "#compdef lock"), ("fish", "complete -c lock")]
    {
        let done = lock(["completions", shell]).finish();
        assert!(
            done.status == 0 && done.stderr.is_empty() && done.stdout.contains(says),
            "{shell}: {done:?}"
        );
        assert!(done.stdout.contains("min-hold"), "{shell}");
    }
    let page = lock(["man"]).finish();
    assert_eq!((page.status, page.stderr.as_str()), (0, ""));
    for what in [".TH lock 1", "max\\-hold", "LOCK RUN", "LOCK BREAK", "Exit status"] {
        assert!(page.stdout.contains(what), "{what}");
    }
    assert!(!page.stdout.contains("__watch"), "inner calls are not for users");
}

fn no_server() {
    // A reserved port on which no server runs.
    for call in [
        &["status", "n"] as &[&str],
        &["info"],
        &["check"],
        &["check", "--strict"],
        &["init", "--yes"],
        &["break", "n", "--yes"],
    ] {
        let done = lock(call).env("LOCK_URL", "redis://127.0.0.1:1").finish();
        done.expect(69, &["127.0.0.1:1"]);
        assert_eq!(done.stdout, "", "{call:?}");
    }
}

fn schemas() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    silent.set_nonblocking(true).unwrap();
    for address in ["127.0.0.1:1", &silent.local_addr().unwrap().to_string()] {
        for (url, parts) in [
            (format!("mysql://u@{address}/d?table=ops.locks"), ["CREATE TABLE", "`ops`.`locks`"]),
            (format!("mariadb://u@{address}/d"), ["CREATE TABLE", "`onelock_locks`"]),
            (format!("postgres://u@{address}/d?table=ops.locks"), ["CREATE TABLE", "\"ops\".\"locks\""]),
            (
                format!("mongodb://{address}/app?collection=c"),
                ["in the database app", "(\"c\").createIndex("],
            ),
            ("sqlite:///no/such/folder/locks.db".to_owned(), ["CREATE TABLE", "onelock_locks"]),
        ] {
            let done = lock(["schema"]).env("LOCK_URL", &url).finish();
            assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{url}");
            assert!(parts.iter().all(|part| done.stdout.contains(part)), "{url}: {done:?}");
        }
        let done = lock(["schema"]).env("LOCK_URL", format!("redis://{address}")).finish();
        done.expect(0, &["needs nothing"]);
        assert_eq!(done.stdout, "");
    }
    let visit = silent.accept().map(drop).map_err(|e| e.kind());
    assert_eq!(visit, Err(ErrorKind::WouldBlock), "no connection may have been made");
    for bad in ["mysql://h/d?colour=red", "redis://h?colour=red", "gopher://h", "localhost"] {
        lock(["schema", "--on", bad]).finish().expect(64, &[]);
    }
}

fn init() {
    lock(["init", "--on", "mysql://127.0.0.1:1/d"]).finish().expect(64, &["--yes"]);
}
