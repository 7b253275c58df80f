//! Bad calls, help, and servers that are not there.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use lock_conformance::assert_in_time;

use super::Case;
use super::call::{lock, run};

pub(crate) const CASES: &[Case] = &[
    ("bad usage ends with 64", bad_usage),
    ("without a server the call says how to name one", no_server),
    ("help and version go to stdout", help),
    ("an unreachable server ends with 69 at once", unreachable),
    ("with --wait an unreachable server is tried until then", unreachable_for_a_while),
    ("a password is not shown", password),
    ("calls of the program by itself are not for people", inner_calls),
];

fn bad_usage() {
    for args in [
        &[] as &[&str],
        &["run"],
        &["fly"],
        &["run", "--on", "memory://", "--", "true"],
        &["run", "--on", "memory://", "--name", "n"],
        &["run", "--on", "memory://", "--name", "n", "true"],
        &["run", "--on", "memory://", "--name", "n", "--fast", "--", "true"],
        &["run", "--on", "memory://", "--name", "", "--", "true"],
        &["run", "--on", "memory://", "--name", "n:lock~t", "--", "true"],
        &["run", "--on", "memory://", "--name", "n", "--ttl", "0s", "--", "true"],
        &["run", "--on", "memory://", "--name", "n", "--ttl", "10", "--", "true"],
        &["run", "--on", "memory://", "--name", "n", "--wait", "soon", "--", "true"],
        &["run", "--on", "memory://", "--name", "n", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "--on", "memory://?colour=red", "--name", "n", "--", "true"],
        &["run", "--on", "gopher://host", "--name", "n", "--", "true"],
        &["run", "--on", "localhost", "--name", "n", "--", "true"],
    ] {
        let done = lock(args).finish();
        assert_eq!((done.status, done.stdout.as_str()), (64, ""), "{args:?}: {done:?}");
        assert!(done.stderr.starts_with("lock: "), "{args:?}: {done:?}");
    }
}

fn no_server() {
    let call = ["run", "--name", "n", "--", "true"];
    let homeless = || lock(call).without("HOME").without("XDG_STATE_HOME");
    homeless().finish().expect(64, &["--on", "$LOCK_URL"]);
    homeless().env("LOCK_URL", "").finish().expect(64, &["--on", "$LOCK_URL"]);
    lock(call).env("LOCK_URL", "memory://").finish().expect(0, &[]);
}

fn help() {
    for (args, says) in [
        (&["--help"] as &[&str], "Usage: lock <COMMAND>"),
        (&["run", "--help"], "75     not acquired"),
        (&["run", "-h"], "--no-wait"),
        (&["--version"], concat!("lock ", env!("CARGO_PKG_VERSION"))),
    ] {
        let done = lock(args).finish();
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{args:?}: {done:?}");
        assert!(done.stdout.contains(says), "{args:?}: {done:?}");
        assert!(!done.stdout.contains("__exec"), "{args:?}: {done:?}");
    }
}

/// A port that is kept for a service that nobody has.
const NOWHERE: &str = "redis://127.0.0.1:1";

fn unreachable() {
    for flags in [&[] as &[&str], &["--no-wait"]] {
        let done = run(NOWHERE, "n", flags, "echo ran").finish();
        done.expect(69, &["can't be reached"]);
        assert_eq!(done.stdout, "");
        assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
    }
}

fn unreachable_for_a_while() {
    // Listens, and never says anything.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let its_url = format!("redis://{}", silent.local_addr().unwrap());
    for url in [NOWHERE, &its_url] {
        let done = run(url, "n", &["--wait", "800ms"], "echo ran").finish();
        done.expect(69, &["within the wait"]);
        assert_eq!(done.stdout, "");
        // The last try is not made within the pause before the end.
        assert!(done.lasted >= Duration::from_millis(550), "{done:?}");
        assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
    }
}

fn password() {
    let url = NOWHERE.replace("redis://", "redis://deploy:s3cr3t@");
    for url in [&url, &url.replace("redis", "gopher"), &format!("{url}?colour=red")] {
        for flags in [&["--no-wait"] as &[&str], &["--wait", "300ms"]] {
            let done = run(url, "n", flags, "true").finish();
            assert!([64, 69].contains(&done.status) && !done.stderr.contains("s3cr3t"), "{url}: {done:?}");
        }
    }
}

fn inner_calls() {
    for args in [&["__exec"] as &[&str], &["__exec", "1", "true"], &["__watch"], &["__watch", "1"]] {
        lock(args).finish().expect(64, &["lock run --help"]);
    }
    lock(["__exec", "1", "1", "echo", "ran"]).finish().expect(71, &["has ended"]);
    let done = lock(["__watch", "1", "echo", "ran"]).finish();
    done.expect(71, &["refused"]);
    assert_eq!(done.stdout, "");
}
