//! The examples do what they say. Each is run as a program, and its output is compared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "memory")]

use std::process::Command;

/// What the example prints, and that it ends well.
fn output(example: &str) -> String {
    // Built beside this test: target/debug/deps/examples-… and target/debug/examples/NAME.
    let here = std::env::current_exe().unwrap();
    let folder = here.ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let output = Command::new(&program).output().unwrap_or_else(|e| {
        panic!(
            "{}: {e}; `cargo test -p onelock` builds it, `--test examples` alone doesn't",
            program.display()
        )
    });
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn first_lock() {
    assert_eq!(output("first_lock"), "worked out under the lock: 42\n");
}

#[test]
fn cron_job() {
    assert_eq!(output("cron_job"), "web-2: skipped, somebody else is at it\nweb-1: the report is written\n");
}

#[test]
fn worker() {
    let stopped = "stopped: the lock was lost: it was revoked\n";
    let ended = "about to be lost: it was held for as long as max_hold allows\ncame to an end by itself: true\nReleased\n";
    assert_eq!(output("worker"), format!("{stopped}{ended}"));
}

#[test]
fn fenced_write() {
    assert_eq!(output("fenced_write"), "successor writes: true\nsleeper writes: false\nlines: 1\n");
}

#[test]
fn blocking() {
    assert_eq!(output("blocking"), "total 10, held to the end\nReleased\n");
}

#[test]
fn call_tree() {
    assert_eq!(
        output("call_tree"),
        "posted rent\nposted salaries\nclosed, still held: true\nfree again: true\n"
    );
}

#[test]
fn several_locks() {
    assert_eq!(output("several_locks"), "2 accounts are held\n2 accounts are held\nboth are done\n");
}

#[test]
fn testing() {
    assert_eq!(output("testing"), "with a healthy server: imported\nwhen the server forgets: true\n");
}
