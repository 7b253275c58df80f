//! The program, the servers that it is tested with, and what its output has to be like.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use lock_test_servers::{Absence, Owned, Product, Redis, Settings};
use serde_json::Value;

use super::NotRun;

/// Starts a server for this test alone.
pub(super) fn own_redis() -> Result<Owned, NotRun> {
    own(&Redis)
}

pub(super) fn own(product: &'static dyn Product) -> Result<Owned, NotRun> {
    Owned::start(product, &Settings::default()).map_err(|absence| match absence {
        Absence::NotRun(why) => why,
        Absence::Failure(why) => panic!("{why}"),
    })
}

pub(super) fn connection(server: &Owned) -> ::redis::Connection {
    ::redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Runs each workload for a second, and returns what is printed: nothing but objects.
pub(super) fn rows(args: &[&str]) -> Vec<Value> {
    rows_or(args, |errors| panic!("errors: {errors}"))
}

/// As `rows`, but calls `failed` with all that was printed if a row has errors.
pub(super) fn rows_or(args: &[&str], failed: fn(&str) -> !) -> Vec<Value> {
    let output = bench(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    let mut rows = lines(&output);
    if args[0] == "quick" {
        let (run, end) = (rows.remove(0), rows.pop().unwrap());
        check(run["run"]["machine"]["cpus"].as_u64() >= Some(1) && run["run"]["began"].is_string(), &run);
        check(end["end"]["failed"] == 0 && end["end"]["took_s"].as_f64() > Some(0.0), &end);
        check(rows.first().is_some_and(|line| line["server"]["address"].is_string()), &end);
        rows.retain(|line| line.get("server").is_none() && line.get("not_run").is_none());
    }
    // The errors themselves are printed beside the rows. Loops that don't keep their pace on a busy machine count as
    // errors.
    let has_errors = |row: &Value| row["errors"].as_u64() > Some(0) && row["workload"] != "commits";
    if rows.iter().any(has_errors) {
        failed(&text(&output));
    }
    rows
}

/// Returns what is printed: nothing but objects, even if the program fails.
pub(super) fn lines(output: &Output) -> Vec<Value> {
    let printed = str::from_utf8(&output.stdout).unwrap();
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the rows of `first-lock`, which need the program `lock` beside this one.
pub(super) fn first_lock() -> &'static [(&'static str, &'static str)] {
    let program = Path::new(env!("CARGO_BIN_EXE_lock-bench"));
    match program.with_file_name(format!("lock{}", std::env::consts::EXE_SUFFIX)).is_file() {
        true => &[("first-lock", "ours"), ("first-lock", "floor")],
        false => &[],
    }
}

/// Returns the only object that is printed, even if the program fails.
pub(super) fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(output)))
}

pub(super) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Measures each workload for a second, with few locks and tasks.
pub(super) fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let few = if args[0] == "quick" { &["--locks", "200", "--tasks", "2000"][..] } else { &[] };
    command.args(args).args(few).args(["--seconds", "1", "--json"]).output().unwrap()
}

/// Expects exactly these rows, each with figures.
pub(super) fn expect(rows: &[Value], expected: &[(&str, &str)]) {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<(String, String)> =
        rows.iter().map(|row| (text(row, "workload"), text(row, "subject"))).collect();
    let expected: BTreeSet<(String, String)> =
        expected.iter().map(|(workload, subject)| ((*workload).to_owned(), (*subject).to_owned())).collect();
    assert_eq!(found, expected);
    for row in rows {
        check(row["errors"].is_number(), row);
        if row["workload"] == "waiting" || row["workload"] == "held" {
            // This is a count. Where releases are pushed, it may be zero for a while.
            check(row["per_s"].as_f64().is_some_and(|rate| rate >= 0.0) && row["p50_us"].is_null(), row);
            continue;
        }
        // The rate counts what ends within its slice. On a busy machine that may be zero.
        check(row["per_s"].as_f64().is_some_and(|rate| rate >= 0.0), row);
        for figure in ["p50_us", "p99_us", "max_us"] {
            check(row[figure].as_f64().is_some_and(|figure| figure > 0.0), row);
        }
    }
}

pub(super) fn check(good: bool, row: &Value) {
    assert!(good, "an unexpected row: {row}");
}
