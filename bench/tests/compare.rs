//! `compare`: that its report can be read, that a run is continued, and that Ctrl-C keeps what was done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a run may take to end its first step.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn compare_makes_a_report_and_measures_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("run"), folder.path().join("locks.db"));
    let sqlite = format!("sqlite:{}", file.display());
    let options = ["--on", "memory://", "--on", &sqlite, "--quick"];
    let first = succeeds(&options, &out);
    assert_eq!((&first["version"], &first["complete"]), (&Value::from(1), &Value::from(true)), "{first}");
    assert_eq!(first["servers"].as_array().unwrap().len(), 2);
    assert!(first["machine"]["cpus"].as_u64() >= Some(1) && first["machine"]["rustc"].is_string());
    has_figures(rows(&first));
    let compared = |row: &&Value| row["server"] == sqlite.as_str() && row["ratios"]["of"] == "floor";
    let ratios = &rows(&first).iter().find(compared).unwrap()["ratios"];
    assert!(["per_s", "p50", "p99"].iter().all(|figure| ratios[figure].as_f64() > Some(0.0)), "{ratios}");

    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<strong>memory://</strong>"), "{page}");

    let steps = fs::read_to_string(out.join("steps.jsonl")).unwrap();
    let second = succeeds(&options, &out);
    assert_eq!(first["rows"], second["rows"]);
    assert_eq!(fs::read_to_string(out.join("steps.jsonl")).unwrap(), steps, "nothing was measured again");

    let other_plan = compare(&["--on", "memory://", "--quick"], &out).output().unwrap();
    assert!(
        !other_plan.status.success() && text(&other_plan).contains("another plan"),
        "{}",
        text(&other_plan)
    );
}

#[test]
fn compare_keeps_what_was_done_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let options = ["--on", "memory://", "--quick", "--workload", "own-names"];
    let mut running = compare(&options, &out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (began, steps) = (Instant::now(), out.join("steps.jsonl"));
    while !fs::read_to_string(&steps).is_ok_and(|steps| steps.contains(r#"{"step":"#)) {
        assert!(began.elapsed() < LIMIT && running.try_wait().unwrap().is_none(), "no step has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    // By the shell: a small system has no program of that name.
    let interrupt = Command::new("sh").args(["-c", &format!("kill -INT {}", running.id())]).status().unwrap();
    assert!(interrupt.success());
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let report = report(&out);
    assert_eq!(report["complete"], false, "{report}");
    has_figures(rows(&report));

    let kept = fs::read_to_string(&steps).unwrap();
    let whole = succeeds(&options, &out);
    assert!(whole["complete"] == true && rows(&whole).len() > rows(&report).len(), "{whole}");
    assert!(fs::read_to_string(&steps).unwrap().starts_with(&kept), "what was done is not measured again");
}

#[test]
fn compare_shows_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // A port that the system never assigns by itself, and on which no server listens.
    let options = ["--on", "redis://me:hunter2@127.0.0.1:1", "--quick", "--workload", "hand-over"];
    let output = compare(&options, &out).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    let written = fs::read_to_string(out.join("report.json")).unwrap();
    let steps = fs::read_to_string(out.join("steps.jsonl")).unwrap();
    assert!(written.contains("redis://127.0.0.1:1"), "{written}");
    for text in [written, steps, text(&output)] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

fn compare(options: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.arg("compare").args(options).arg("--json").arg("--out").arg(out);
    command
}

/// Runs it to its end, and returns the report, which is also printed.
fn succeeds(options: &[&str], out: &Path) -> Value {
    let output = compare(options, out).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = report(out);
    assert_eq!(printed, written);
    written
}

fn report(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

fn has_figures(rows: &[Value]) {
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row["per_s"].as_f64() >= Some(0.0) && row["subject"].is_string(), "{row}");
        assert!(row["rounds"].as_array().is_some_and(|rounds| !rounds.is_empty()), "{row}");
        // On a slow disk, a thousand held locks may not all be renewed in time.
        assert!(row["errors"] == 0 || row["workload"] == "held", "{row}");
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
