//! The examples do what they say. Each one is run as a program, and its output is compared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, ExitCode};

use libtest_mimic::Arguments;
use lock_conformance::{assert_in_time, rules};

/// An example's name, and what it prints.
type Example = (&'static str, &'static str);

const EXAMPLES: [Example; 8] = [
    ("first_lock", "worked out under the lock: 42\n"),
    ("cron_job", "web-2: skipped, another machine has the lock\nweb-1: the report is written\n"),
    (
        "worker",
        "stopped: the lock was lost: it was revoked\n\
         about to be lost: it was held for as long as max_hold allows\n\
         came to an end by itself: true\nReleased\n",
    ),
    ("fenced_write", "successor writes: true\nsleeper writes: false\nlines: 1\n"),
    ("blocking", "total 10, held to the end\nReleased\n"),
    ("call_tree", "posted rent\nposted salaries\nclosed, still held: true\nfree again: true\n"),
    ("several_locks", "2 accounts are held\n2 accounts are held\nboth are done\n"),
    ("testing", "with a healthy server: imported\nwhen the server forgets: Err(Lost)\n"),
];

/// Lines that an example prints instead of the expected ones if a lease ended because the machine stood still.
const TOO_LATE: [&str; 2] = ["came to an end by itself: false", "Expired"];

fn main() -> ExitCode {
    let examples = EXAMPLES.map(|(name, prints)| (name, move || runs(name, prints)));
    libtest_mimic::run(&Arguments::from_args(), rules::judged("onelock's examples", examples)).exit_code()
}

/// Runs an example: it must print `prints` and succeed.
fn runs(example: &str, prints: &str) {
    // The build puts this test into target/debug/deps/examples-… and the example into target/debug/examples/NAME.
    let here = std::env::current_exe().unwrap();
    let folder = here.ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let output = Command::new(&program).output().unwrap_or_else(|e| {
        panic!(
            "{}: {e}; `cargo test -p onelock` builds it, `--test examples` alone does not",
            program.display()
        )
    });
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert_in_time!(!printed.lines().any(|line| TOO_LATE.contains(&line)), "{printed}");
    assert_eq!(printed, prints);
}
