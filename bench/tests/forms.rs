//! The forms of the Redis backend: that the floor knows what each sends, that each has a name of its own, and that they
//! are compared with the plain form.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{Absence, Owned, Redis, Settings};
use serde_json::Value;

/// Why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 2] = [
        ("each_form_has_a_floor_and_a_name_of_its_own", floors),
        ("forms_are_compared_with_the_plain_one", compared),
    ];
    libtest_mimic::run(&Arguments::from_args(), rules::judged("forms", cases)).exit();
}

const FORMS: [&str; 4] = ["", "layout=redisson", "layout=redisson&fenced=1", "fair=true&grace=2s"];

fn floors() -> Result<(), NotRun> {
    let server = own_redis()?;
    let urls = FORMS.map(|parameters| format!("{}?{parameters}", server.url()));
    let mut arguments = vec!["quick", "--workload", "uncontended", "--workload", "hand-over"];
    arguments.extend(["--subject", "ours", "--subject", "floor"]);
    arguments.extend(urls.iter().flat_map(|url| ["--on", url]));
    let rows = rows(&arguments);
    let names = FORMS.map(|form| format!("redis {}", form.replace('&', " ")).trim_end().to_owned());
    let found: BTreeSet<&str> = rows.iter().map(|row| row["backend"].as_str().unwrap()).collect();
    assert_eq!(found, names.iter().map(String::as_str).collect());
    assert_eq!(rows.len(), FORMS.len() * 4, "two workloads, two subjects");
    for row in rows.iter().filter(|row| row["subject"] == "ours") {
        assert!(row["ratio"].as_f64() > Some(0.0) && row["reached"].is_boolean(), "{row}");
    }
    let mut connection = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    let is_token = |key: &String| key.ends_with(":lock~t") || key.starts_with("redisson_lock_token:");
    let left: Vec<&String> = keys.iter().filter(|key| !is_token(key)).collect();
    assert!(left.is_empty(), "{left:?} were left on the server: the floor deletes what the library deletes");
    Ok(())
}

fn compared() -> Result<(), NotRun> {
    let server = own_redis()?;
    let rows = rows(&["forms", "--on", server.url()]);
    let forms = ["plain", "layout=redisson", "layout=redisson&fenced=1", "fair=true"];
    let mut expected = BTreeSet::new();
    for workload in ["uncontended", "names=64", "hand-over", "processes=8"] {
        expected.extend(forms.map(|form| (workload, form)));
    }
    let found = rows.iter().map(|row| (row["workload"].as_str().unwrap(), row["form"].as_str().unwrap()));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    for row in &rows {
        let is_form = row["form"] != "plain";
        assert_eq!(row["ratios"]["of"], if is_form { "plain".into() } else { Value::Null }, "{row}");
        assert_eq!(row["ratios"]["p50"].as_f64() > Some(0.0), is_form, "{row}");
        assert_eq!(row["reached"].is_boolean(), is_form && row["workload"] == "uncontended", "{row}");
    }
    Ok(())
}

fn own_redis() -> Result<Owned, NotRun> {
    Owned::start(&Redis, &Settings::default()).map_err(|absence| match absence {
        Absence::NotRun(why) => why,
        Absence::Failure(why) => panic!("{why}"),
    })
}

/// Runs each workload for a second, and returns what is printed: nothing but objects without errors.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let output = command.args(arguments).args(["--seconds", "1", "--json"]).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    let printed = str::from_utf8(&output.stdout).unwrap();
    let mut rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // `quick` describes the run and the servers on lines of their own.
    rows.retain(|line| line["workload"].is_string());
    assert!(rows.iter().all(|row| row["errors"] == 0), "{}", text(&output));
    rows
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
