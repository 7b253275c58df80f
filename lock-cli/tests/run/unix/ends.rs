//! The command that has the lock: its start and its end.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;

use lock_test_servers::Owned;
use rustix::process::Signal;

use super::OnServer;
use super::call::{lock, run};
use super::waits::hold;

pub(crate) const CASES: &[OnServer] = &[
    ("the command's status is ours", status),
    ("a command that a signal ended gives 128 and the signal", signalled),
    ("a command that is not there gives 127, one that can't be executed 126", not_executed),
    ("the command finds name and token in its environment", environment),
    ("streams and arguments are the command's own", streams),
    ("a token is higher than the one before", tokens),
    ("--verbose says where the lock is waited for and acquired", verbose),
    ("what the command leaves behind in its group is killed", leftovers),
    ("the lock is free when the program has ended", released),
];

fn status(server: &Owned) {
    for status in [0, 3, 75, 255] {
        let done = run(server.url(), "status", &[], &format!("exit {status}")).finish();
        done.expect(status, &[]);
        assert_eq!(done.stderr, "");
    }
}

fn signalled(server: &Owned) {
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        run(server.url(), "signalled", &[], &format!("kill -s {signal} $$")).finish().expect(status, &[]);
    }
}

fn not_executed(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-executable");
    fs::write(&file, "true").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let call = ["run", "--on", server.url(), "--name", "not-executed", "--"];
    for (program, status) in
        [("no-such-command", 127), ("/no/such/command", 127), (file.to_str().unwrap(), 126), ("/", 126)]
    {
        let done = lock(call.into_iter().chain([program])).finish();
        done.expect(status, &[program]);
    }
}

/// The token is the one that the server has: another client reads it there.
fn environment(server: &Owned) {
    let script = "echo \"$LOCK_NAME\"; echo \"$LOCK_TOKEN\"; exec sleep 100";
    let holder = run(server.url(), "the environment", &[], script).start();
    let (name, token) = (holder.line(), holder.line());
    let seen = lock(["status", "the environment", "--json", "--on", server.url()]).finish();
    seen.expect(0, &[]);
    let seen: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(name, "the environment");
    assert_eq!(token.parse().ok(), seen["holder"]["token"].as_u64(), "LOCK_TOKEN is {token}; {seen}");
    assert!(seen["holder"]["token"].is_u64(), "{seen}");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

fn streams(server: &Owned) {
    let done = run(server.url(), "streams", &[], "cat; echo out; echo err >&2").finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, "out\n", "err\n"));
    // A name that is not UTF-8, and arguments that look like flags of lock.
    let odd = [
        b"printf".to_vec(),
        b"%s|".to_vec(),
        b"\xff".to_vec(),
        b"--name".to_vec(),
        b"--".to_vec(),
        b"".to_vec(),
    ];
    let ours = ["run", "--on", server.url(), "--name", "streams", "--"].map(|arg| arg.as_bytes().to_vec());
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hex");
    fs::write(&script, "#!/bin/sh\n\"$@\" | od -An -tx1\n").unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let args = ours.into_iter().chain([script.as_os_str().as_bytes().to_vec()]).chain(odd);
    let done = lock(args.map(std::ffi::OsString::from_vec)).finish();
    assert_eq!(done.stdout.split_whitespace().collect::<String>(), hex(b"\xff|--name|--||"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tokens(server: &Owned) {
    let token = || {
        run(server.url(), "tokens", &[], "echo $LOCK_TOKEN").finish().stdout.trim().parse::<u64>().unwrap()
    };
    let (first, second) = (token(), token());
    assert!(first < second, "{first} {second}");
}

fn verbose(server: &Owned) {
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/');
    let done = run(server.url(), "verbose", &["--verbose"], "echo $LOCK_TOKEN").finish();
    done.expect(
        0,
        &["lock: acquired \"verbose\" on redis ", address, &format!("token {}", done.stdout.trim())],
    );
    let holder = hold(server, "verbose", &[]);
    let waiter = run(server.url(), "verbose", &["--verbose"], "true").start();
    assert!(waiter.complaint().starts_with(&format!("lock: waiting for \"verbose\" on redis {address}")));
    holder.signal(Signal::TERM);
    waiter.finish().expect(0, &["lock: acquired"]);
}

fn leftovers(server: &Owned) {
    // `finish` waits for every process that has stdout open. If the sleep were alive, it would wait for that, too.
    let done = run(server.url(), "leftovers", &[], "sleep 100 & exit 4").finish();
    done.expect(4, &[]);
}

fn released(server: &Owned) {
    for _ in 0..3 {
        run(server.url(), "released", &["--no-wait"], "true").finish().expect(0, &[]);
    }
}
