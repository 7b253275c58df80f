//! What one run of `quick` says of itself, and what two of them are compared by.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::NotRun;
use super::program::{bench, check, connection, expect, lines, own_redis, text};

/// The floor can't record what the library sends, because this user may not use MONITOR.
pub(super) fn failed_workload() -> Result<(), NotRun> {
    let server = own_redis()?;
    ::redis::cmd("ACL").arg(&["SETUSER", "default", "-monitor"]).exec(&mut connection(&server)).unwrap();
    let output =
        bench(&["quick", "--on", server.url(), "--workload", "uncontended", "--workload", "processes"]);
    let lines = lines(&output);
    let failed = lines.iter().find_map(|line| line.get("not_run")).unwrap();
    check(failed["workload"] == "uncontended" && failed["failed"] == true, failed);
    let rows: Vec<Value> = lines.iter().filter(|line| line["subject"].is_string()).cloned().collect();
    expect(&rows, &[("processes", "ours")]);
    check(lines.last().unwrap()["end"]["failed"] == 1 && !output.status.success(), &Value::from(lines));
    Ok(())
}

/// A copy of the program in a folder of its own.
pub(super) fn without_lock() -> Result<(), NotRun> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join(format!("lock-bench{}", std::env::consts::EXE_SUFFIX));
    fs::hard_link(env!("CARGO_BIN_EXE_lock-bench"), &program).unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut command = Command::new(program);
    let output =
        command.args(["quick", "--json", "--on", &url, "--workload", "first-lock"]).output().unwrap();
    let lines = lines(&output);
    check(lines.iter().all(|line| line.get("subject").is_none()), &Value::from(lines.clone()));
    let not_run = lines.iter().find_map(|line| line.get("not_run")).unwrap();
    check(not_run["failed"] == false && not_run["why"].as_str().unwrap().contains("lock-cli"), not_run);
    Ok(())
}

pub(super) fn measured() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let files = ["before.json", "after.json"].map(|name| folder.path().join(name));
    for file in &files {
        let output = bench(&["quick", "--on", "memory", "--workload", "one-name", "--workload", "held"]);
        assert!(output.status.success(), "{}", text(&output));
        fs::write(file, &output.stdout).unwrap();
    }
    let compare = |files: [&Path; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
        command.arg("measured").args(files).output().unwrap()
    };
    let output = compare([&files[0], &files[1]]);
    assert!(output.status.success(), "{}", text(&output));
    let document = String::from_utf8(output.stdout).unwrap();
    for expected in ["## memory", "| one-name | ", "| held locks=200 | ", "ratio >= 1.7: "] {
        assert!(document.contains(expected), "{expected}: {document}");
    }
    let none = compare([&files[0], folder.path()]);
    assert!(
        !none.status.success() && text(&none).contains(&*folder.path().to_string_lossy()),
        "{}",
        text(&none)
    );
    Ok(())
}
