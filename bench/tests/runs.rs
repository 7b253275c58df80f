//! The program measures the subjects of each server, and writes a report that another program can read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Arguments;
use lock_conformance::environment::MACHINE;
use lock_conformance::rules;
use lock_test_servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Postgres, Product, Redis, Settings, ZooKeeper,
};
use serde_json::Value;
use tempfile::TempDir;

/// The reason why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 19] = [
        ("memory_has_neither_baseline_nor_hand_over", memory),
        ("a_file_has_a_baseline_where_no_client_waits", sqlite),
        ("on_redis_peers_and_forms_leave_no_lock", redis),
        ("on_redlock_one_of_five_may_be_lost", redlock),
        ("on_mariadb_waiters_poll", || polled("mariadb", &MySql::MariaDb)),
        ("on_mysql_waiters_poll", || polled("mysql", &MySql::MySql)),
        ("on_postgres_releases_are_pushed", || pushed("postgres", &Postgres::Installed)),
        ("on_a_replica_set_of_mongodb_releases_are_pushed", || pushed("mongodb", &MongoDb::Set)),
        ("on_etcd_releases_are_pushed", || pushed("etcd", &Etcd)),
        ("on_zookeeper_releases_are_pushed", || pushed("zookeeper", &ZooKeeper)),
        ("a_resource_with_tokens_takes_no_stale_write", argue),
        ("claims_are_tried_on_redis", || claims("redis", &Redis, &ON_REDIS)),
        ("claims_are_tried_on_redlock", || claims("redlock", &Redis, &ON_REDLOCK)),
        ("claims_are_tried_on_mariadb", || claims("mariadb", &MySql::MariaDb, &ON_MARIADB)),
        ("claims_are_tried_on_mongodb", || claims("mongodb", &MongoDb::Set, &ON_MONGODB)),
        ("what_fails_is_said_and_the_rest_is_measured", failed_step),
        ("an_absent_server_is_an_error_without_its_password", absent_server),
        ("an_interrupted_run_is_continued_and_compared", interrupted),
        ("a_process_that_waits_ends_with_its_parent", orphan),
    ];
    let mut arguments = Arguments::from_args();
    // Each case waits for half of its time. More of them at once would disturb each other's measurements.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, rules::judged("lock-bench", cases)).exit();
}

fn memory() -> Result<(), NotRun> {
    let report = measured(&["--on", "memory://", "--quick"]);
    let cases = rows(&report).iter().map(|row| row["case"].as_str().unwrap().split(' ').next().unwrap());
    assert_eq!(cases.collect::<BTreeSet<_>>(), ["held", "one-name", "own-names"].into());
    assert!(rows(&report).iter().all(|row| row["subject"] == "ours"), "{report}");
    assert!(!report["machine"]["rustc"].is_null() && report["complete"] == true);
    Ok(())
}

fn sqlite() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("locks.db").display());
    let report =
        measured(&["--on", &url, "--quick", "--workload", "own-names tasks=1", "--workload", "hand-over"]);
    subjects(&report, "own-names tasks=1", &["ours", "baseline"]);
    subjects(&report, "hand-over", &["ours"]);
    Ok(())
}

fn redis() -> Result<(), NotRun> {
    let server = own(&Redis)?;
    let fair = format!("{}?fair=true", server.url());
    let asked = ["--on", server.url(), "--on", &fair, "--quick", "--peers"];
    let cases = ["--workload", "own-names tasks=64", "--workload", "hand-over", "--workload", "held"];
    let report = measured(&[&asked[..], &cases].concat());
    for case in ["own-names tasks=64", "hand-over"] {
        let of = |name: &str| {
            rows(&report).iter().find(|row| row["case"] == case && row["subject"] == name).cloned()
        };
        let ours = of("ours").unwrap();
        assert!(ours["ratios"]["of"] == "baseline" && ours["ratios"]["per_s"].as_f64() > Some(0.0), "{ours}");
        let rslock = of("rslock").unwrap();
        assert!(rslock["ratios"]["of"] == "ours" && rslock["lacks"][0] == "a fencing token", "{rslock}");
        assert_eq!(of("distributed-lock-redis").is_some(), case != "hand-over", "it does not wait");
        // A driver that is not built is not run, and the report says so.
        let said = report["not_run"].as_array().unwrap().iter().any(|not| not["case"] == "peer redsync");
        assert!(said || of("redsync").is_some_and(|row| row["errors"].is_null()), "{report}");
    }
    let held = rows(&report).iter().find(|row| row["case"] == "held locks=1000").unwrap();
    assert!(!cfg!(target_os = "linux") || held["extra"]["bytes_per_lock"].as_f64() > Some(0.0), "{held}");
    assert!(rows(&report).iter().any(|row| row["server"].as_str().unwrap().ends_with(" fair=true")));
    let mut connection = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    let left = keys.iter().find(|key| !key.ends_with(":lock~t") && !key.ends_with(":token"));
    assert!(left.is_none(), "{left:?} was left on the server");
    Ok(())
}

fn redlock() -> Result<(), NotRun> {
    found(&Redis)?;
    let cases = ["--workload", "own-names tasks=1", "--workload", "one-lost", "--workload", "hand-over"];
    let report = measured(&[&["--on", "redlock", "--quick"][..], &cases].concat());
    subjects(&report, "own-names tasks=1", &["ours", "baseline", "naive-redlock"]);
    subjects(&report, "one-lost", &["ours", "one-dead", "one-silent"]);
    subjects(&report, "hand-over", &["ours"]);
    assert!(goal(&report, "one-lost") != "not-measured");
    Ok(())
}

/// On a server that pushes nothing.
fn polled(name: &str, product: &'static dyn Product) -> Result<(), NotRun> {
    found(product)?;
    let report =
        measured(&["--on", name, "--quick", "--workload", "own-names tasks=1", "--workload", "delay"]);
    subjects(&report, "own-names tasks=1", &["ours", "baseline", "naive-unique-index"]);
    subjects(&report, "delay", &["ours"]);
    assert_ne!(goal(&report, "polls"), "not-measured");
    Ok(())
}

fn pushed(name: &str, product: &'static dyn Product) -> Result<(), NotRun> {
    found(product)?;
    let crowd = "one-name contenders=8 processes=8";
    let cases = ["--workload", "own-names tasks=1", "--workload", "hand-over", "--workload", crowd];
    let report = measured(&[&["--on", name, "--quick"][..], &cases].concat());
    let own_names = if name == "mongodb" {
        &["ours", "baseline", "naive-find-and-modify"][..]
    } else {
        &["ours", "baseline"]
    };
    subjects(&report, "own-names tasks=1", own_names);
    subjects(&report, "hand-over", &["ours", "baseline"]);
    subjects(&report, crowd, &["ours", "baseline"]);
    Ok(())
}

fn argue() -> Result<(), NotRun> {
    found(&Redis)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let output = command.args(["argue", "--rounds", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let ours: Vec<&str> = printed.lines().filter(|line| line.contains("| lock-redlock |")).collect();
    assert!(ours.len() == 6 && ours.iter().all(|line| line.ends_with("| 0 |")), "{printed}");
    Ok(())
}

const HOLDS: &str = "holds";
const NOT: &str = "does-not-hold";
const WITHIN: &str = "holds-within-a-limit";

/// A claim, with the verdicts on the scheme of the texts and on the library.
type Expected = (&'static str, &'static str, &'static str);

const ON_REDIS: [Expected; 10] = [
    ("T8", HOLDS, NOT),
    ("T9", HOLDS, NOT),
    ("T10", HOLDS, NOT),
    ("T12", HOLDS, NOT),
    ("T13", HOLDS, HOLDS),
    ("T14", HOLDS, WITHIN),
    ("T18", HOLDS, NOT),
    ("T19", HOLDS, NOT),
    ("T20", HOLDS, NOT),
    ("T21", HOLDS, HOLDS),
];
const ON_REDLOCK: [Expected; 5] = [
    ("T15", HOLDS, HOLDS),
    ("T16", HOLDS, NOT),
    ("T17", HOLDS, NOT),
    ("T26", HOLDS, HOLDS),
    ("T27", HOLDS, WITHIN),
];
const ON_MARIADB: [Expected; 2] = [("T1", HOLDS, NOT), ("T2", HOLDS, WITHIN)];
const ON_MONGODB: [Expected; 1] = [("T5", HOLDS, NOT)];

/// Another program waits to have the machine alone meanwhile: it waits for this case, which must not wait for it.
fn claims(name: &str, product: &'static dyn Product, expected: &[Expected]) -> Result<(), NotRun> {
    found(product)?;
    let folder = tempfile::tempdir().unwrap();
    let machine = folder.path().join("machine");
    let gate = fs::File::create(machine.with_extension("gate")).unwrap();
    gate.lock().unwrap();
    let report = measured_with(&["--on", name, "--quick", "--workload", "claims"], |run| {
        run.env(MACHINE, &machine);
    });
    for (id, naive, ours) in expected {
        let claim = report["claims"].as_array().unwrap().iter().find(|claim| claim["id"] == *id).unwrap();
        assert!(claim["naive"]["verdict"] == *naive && claim["ours"]["verdict"] == *ours, "{claim}");
    }
    Ok(())
}

/// The server does not tell this user how many requests it got: the baseline can't be checked.
fn failed_step() -> Result<(), NotRun> {
    let (server, out) = (own(&Redis)?, tempfile::tempdir().unwrap());
    let mut connection = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    ::redis::cmd("ACL").arg(&["SETUSER", "default", "-info"]).exec(&mut connection).unwrap();
    let cases = ["--workload", "own-names tasks=1", "--workload", "hand-over"];
    let output = run(&[&["--on", server.url(), "--quick"][..], &cases].concat(), &out).output().unwrap();
    let report = report(out.path());
    let failed = report["not_run"].as_array().unwrap().iter().find(|not| not["failed"] == true).unwrap();
    assert!(failed["case"] == "own-names tasks=1" && !output.status.success(), "{report}");
    subjects(&report, "hand-over", &["ours", "baseline"]);
    Ok(())
}

fn absent_server() -> Result<(), NotRun> {
    let out = tempfile::tempdir().unwrap();
    // A port that the system never assigns by itself, and on which no server listens.
    let output = run(&["--on", "redis://me:hunter2@127.0.0.1:1", "--quick"], &out).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    let written = fs::read_to_string(out.path().join("report.json")).unwrap();
    assert!(written.contains("redis://127.0.0.1:1"), "{written}");
    assert!(!written.contains("hunter2") && !text(&output).contains("hunter2"), "{}", text(&output));
    Ok(())
}

fn interrupted() -> Result<(), NotRun> {
    const LIMIT: Duration = Duration::from_secs(120);
    let out = tempfile::tempdir().unwrap();
    let options = ["--on", "memory://", "--quick", "--workload", "own-names"];
    let mut running = run(&options, &out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (began, file) = (Instant::now(), out.path().join("report.json"));
    while !fs::read_to_string(&file).is_ok_and(|report| report.contains("own-names tasks=1\",\"subject")) {
        assert!(began.elapsed() < LIMIT && running.try_wait().unwrap().is_none(), "no step has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    // By the shell: a small system has no program of that name.
    let interrupt = Command::new("sh").args(["-c", &format!("kill -INT {}", running.id())]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let first = report(out.path());
    assert!(first["complete"] == false && !rows(&first).is_empty(), "{first}");
    let output = run(&options, &out).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let whole = report(out.path());
    assert!(
        whole["complete"] == true && rows(&whole)[0] == rows(&first)[0],
        "what was done is not measured again"
    );
    let other = run(&["--on", "memory://", "--quick"], &out).output().unwrap();
    assert!(!other.status.success() && text(&other).contains("another plan"), "{}", text(&other));
    let mut diff = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let output = diff.arg("diff").args([out.path(), out.path()]).output().unwrap();
    assert!(text(&output).contains("| memory:// | own-names tasks=1 | "), "{}", text(&output));
    Ok(())
}

/// A process ends that waits for a lock when its benchmark is killed.
fn orphan() -> Result<(), NotRun> {
    let mut side = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    side.arg("side").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut side = side.spawn().unwrap();
    // It waits for itself.
    let lines = "ours\nname\nmemory://\n\"Acquire\"\n\"Acquire\"\n";
    side.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = side.wait_with_output().unwrap();
    let replies = String::from_utf8(output.stdout).unwrap();
    assert!(replies.matches("Granted").count() == 1 && !output.status.success(), "{replies}");
    Ok(())
}

/// A case that needs a server is not run where there is none.
fn found(product: &'static dyn Product) -> Result<(), NotRun> {
    Owned::find(product).map_err(Absence::reason)
}

fn own(product: &'static dyn Product) -> Result<Owned, NotRun> {
    Owned::start(product, &Settings::default()).map_err(Absence::reason)
}

fn run(options: &[&str], out: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.arg("run").args(options).arg("--out").arg(out.path());
    command
}

/// Runs it to its end, and returns the report, in which no row has errors.
fn measured(options: &[&str]) -> Value {
    measured_with(options, |_| {})
}

fn measured_with(options: &[&str], change: impl FnOnce(&mut Command)) -> Value {
    let out = tempfile::tempdir().unwrap();
    let mut run = run(options, &out);
    change(&mut run);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{options:?}: {}", text(&output));
    let report = report(out.path());
    for row in rows(&report) {
        assert!(row["errors"].is_null() && row["per_s"].as_f64() >= Some(0.0), "{row}");
    }
    assert!(fs::metadata(out.path().join("report.html")).is_ok());
    report
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

/// Expects these subjects at a case.
fn subjects(report: &Value, case: &str, expected: &[&str]) {
    let found =
        rows(report).iter().filter(|row| row["case"] == case).map(|row| row["subject"].as_str().unwrap());
    assert_eq!(found.collect::<Vec<_>>(), expected, "{case}");
}

/// Returns the verdict on a goal.
fn goal<'a>(report: &'a Value, id: &str) -> &'a str {
    let goals = report["goals"].as_array().unwrap();
    goals.iter().find(|goal| goal["id"] == id).unwrap()["verdict"].as_str().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
