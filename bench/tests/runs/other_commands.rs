//! What the program does besides `quick` and `hold`, and how its processes end.

use std::io::Write;
use std::process::{Command, Stdio};

use lock_test_servers::{Postgres, Product, Redis};
use serde_json::Value;

use super::NotRun;
use super::program::{bench, check, object, own, own_redis, rows, text};

/// Peers whose drivers are not built are not run, and the report says so.
pub(super) fn peers() -> Result<(), NotRun> {
    let server = own_redis()?;
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.args([
        "compare",
        "--on",
        server.url(),
        "--quick",
        "--workload",
        "hand-over",
        "--peers",
        "--json",
    ]);
    let report = object(&command.arg("--out").arg(out.path()).output().unwrap());
    let of = |subject: &str| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        rows.find(|row| row["subject"] == subject)
    };
    let rslock = of("rslock").unwrap();
    check(rslock["errors"] == 0 && rslock["ratios"]["of"] == "ours", rslock);
    check(rslock["peer"]["promises"]["token"] == "none", rslock);
    check(rslock["peer"]["lacks"][0]["promise"] == "token", rslock);
    check(of("ours").is_some_and(|ours| ours["peer"].is_null()), &report);
    check(of("distributed-lock-redis").is_none(), &report);
    let not_run = report["not_run"].as_array().unwrap();
    for name in ["redsync", "redisson-lock", "redisson-fair", "redisson-fenced", "node-redlock"] {
        let left_out = not_run.iter().any(|not| not["workload"] == format!("peer {name}"));
        match of(name) {
            Some(row) => check(!left_out && row["errors"] == 0, row),
            None => check(left_out, &report),
        }
    }
    Ok(())
}

pub(super) fn argue() -> Result<(), NotRun> {
    own_redis()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let output = command.args(["argue", "--rounds", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let ours: Vec<&str> = printed.lines().filter(|line| line.contains("| lock-redlock |")).collect();
    assert!(ours.len() == 6 && ours.iter().all(|line| line.ends_with("| 0 |")), "{printed}");
    Ok(())
}

pub(super) fn calibrate_redis() -> Result<(), NotRun> {
    calibrate(&Redis, 2, "redis-benchmark")
}

pub(super) fn calibrate_postgres() -> Result<(), NotRun> {
    calibrate(&Postgres::Installed, 1, "pgbench")
}

/// Expects this many figures of the driver, and as many of the program.
pub(super) fn calibrate(product: &'static dyn Product, figures: usize, program: &str) -> Result<(), NotRun> {
    let server = own(product)?;
    let rows = rows(&["calibrate", "--on", server.url()]);
    let drivers: Vec<&Value> = rows.iter().filter(|row| row["ratio"].is_number()).collect();
    if rows.len() == figures && drivers.is_empty() {
        return Err(format!("{program} is not on the PATH"));
    }
    check(rows.len() == 2 * figures && drivers.len() == figures, &Value::from(rows.clone()));
    Ok(())
}

pub(super) fn absent_server() -> Result<(), NotRun> {
    // A port that the system never assigns by itself, and on which no Redis listens.
    let output = bench(&["quick", "--on", "redis://127.0.0.1:1"]);
    check(!output.status.success() && output.stdout.is_empty() && !output.stderr.is_empty(), &Value::Null);
    Ok(())
}

/// What a process does whose benchmark was killed while it waited for a lock.
pub(super) fn orphan() -> Result<(), NotRun> {
    let mut side = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    side.arg("hand-over-side").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut side = side.spawn().unwrap();
    // It waits for itself.
    let lines = "ours\nname\nmemory://\nacquire\nacquire\n";
    side.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = side.wait_with_output().unwrap();
    let replies = String::from_utf8(output.stdout).unwrap();
    check(replies.matches("granted").count() == 1 && !output.status.success(), &Value::from(replies));
    Ok(())
}
