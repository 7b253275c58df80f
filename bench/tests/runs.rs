//! The program itself: that every workload runs, and that a program can read what it prints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use libtest_mimic::Arguments;
use lock_conformance::timing::{too_late, void};
use lock_conformance::{assert_in_time, rules};
use lock_test_servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Postgres, Product, Redis, Settings, ZooKeeper,
};
use serde_json::Value;

/// Why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 18] = [
        ("memory_has_neither_floor_nor_hand_over", memory),
        ("on_redis_every_workload_has_its_subjects_and_leaves_no_lock", redis),
        ("on_redis_peers_are_measured_beside_the_library", peers),
        ("on_redlock_one_of_five_may_be_lost", redlock),
        ("no_argument_makes_a_resource_with_tokens_take_a_stale_write", argue),
        ("on_sqlite_there_is_a_floor_where_no_client_waits", sqlite),
        ("on_mariadb_waiters_look_and_renewals_are_timed_beside_them", mariadb),
        ("on_mysql_too", mysql),
        ("on_postgres_releases_are_pushed_and_commits_are_timed_beside_loops", postgres),
        ("on_a_replica_set_of_mongodb_a_change_stream_pushes_releases", mongodb),
        ("on_etcd_the_next_one_is_told", etcd),
        ("on_zookeeper_too", zookeeper),
        ("the_driver_is_compared_with_redis_benchmark", calibrate_redis),
        ("the_driver_is_compared_with_pgbench", calibrate_postgres),
        ("held_locks_are_renewed_and_none_is_lost", hold),
        ("a_lock_that_is_lost_meanwhile_is_an_error", loss),
        ("a_server_that_is_not_there_is_an_error", absent_server),
        ("another_process_that_waits_ends_with_the_one_that_started_it", orphan),
    ];
    let mut arguments = Arguments::from_args();
    // Each case loads the machine; more of them at once would disturb each other's measurements.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, rules::judged("lock-bench", cases)).exit();
}

fn memory() -> Result<(), NotRun> {
    let rows = rows(&["quick", "--on", "memory://"]);
    expect(&rows, &[("uncontended", "ours"), ("many-names", "ours"), ("one-name", "ours")]);
    for row in &rows {
        let has_ratio = row["workload"] == "one-name";
        check(row["backend"] == "memory" && row["ratio"].is_number() == has_ratio, row);
        check(row["token_price"].is_null(), row);
    }
    Ok(())
}

fn sqlite() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("locks.db").display());
    let rows = rows(&["quick", "--on", &url]);
    let with_floor = ["uncontended", "many-names"].map(|workload| [(workload, "ours"), (workload, "floor")]);
    let alone = ["one-name", "hand-over", "processes", "delay"].map(|workload| (workload, "ours"));
    expect(&rows, &[&with_floor.concat()[..], &alone].concat());
    for row in &rows {
        let compared = !matches!(row["workload"].as_str(), Some("hand-over" | "processes"));
        check(row["ratio"].is_number() == (compared && row["subject"] == "ours"), row);
    }
    Ok(())
}

fn redis() -> Result<(), NotRun> {
    let server = own_redis()?;
    let rows = rows(&["quick", "--on", server.url()]);
    let with_floors = ["ours", "floor", "no-token", "rslock"];
    let mut expected: Vec<(&str, &str)> = Vec::new();
    for (workload, subjects) in [
        ("uncontended", &with_floors[..]),
        ("many-names", &with_floors),
        ("one-name", &["ours", "rslock"]),
        ("hand-over", &["ours", "floor", "rslock"]),
        ("processes", &["ours"]),
        ("waiting", &["ours"]),
    ] {
        expected.extend(subjects.iter().map(|subject| (workload, *subject)));
    }
    expect(&rows, &expected);
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("processes" | "waiting"));
        let has_ratio = row["subject"] != "floor" && !alone;
        check(row["ratio"].is_number() == has_ratio, row);
        let has_price = matches!(row["workload"].as_str(), Some("uncontended" | "many-names"));
        check(row["token_price"].is_number() == (has_price && row["subject"] != "no-token"), row);
    }
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut connection(&server)).unwrap();
    let left = keys.iter().find(|key| !key.ends_with(":lock~t"));
    assert!(left.is_none(), "{left:?} was left on the server");
    Ok(())
}

/// Peers whose drivers are not built are not run, and the report says so.
fn peers() -> Result<(), NotRun> {
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

fn redlock() -> Result<(), NotRun> {
    own_redis()?;
    // A node that takes longer than this has not answered. Without the answers of a majority, a release can't tell that
    // the lock was held until then (docs/protocols/redlock.md).
    const NODE_PATIENCE: Duration = Duration::from_millis(50);
    let rows = rows_or(&["quick", "--on", "redlock"], |errors| too_late(NODE_PATIENCE, errors));
    let mut expected = vec![("one-lost", "one-dead"), ("one-lost", "one-silent")];
    for floor in ["floor", "one-round"] {
        expected.extend(["uncontended", "many-names"].map(|workload| (workload, floor)));
    }
    let ours = ["uncontended", "many-names", "one-name", "one-lost", "hand-over", "processes", "waiting"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected);
    let lost = |row: &&Value| row["workload"] == "one-lost" && row["subject"] != "ours";
    for row in rows.iter().filter(lost) {
        check(row["ratio"].is_number() && row["reached"].is_boolean(), row);
    }
    Ok(())
}

fn argue() -> Result<(), NotRun> {
    own_redis()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    let output = command.args(["argue", "--rounds", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let ours: Vec<&str> = printed.lines().filter(|line| line.contains("| lock-redlock |")).collect();
    assert!(ours.len() == 6 && ours.iter().all(|line| line.ends_with("| 0 |")), "{printed}");
    Ok(())
}

fn mariadb() -> Result<(), NotRun> {
    looked_for(&MySql::MariaDb)
}

fn mysql() -> Result<(), NotRun> {
    looked_for(&MySql::MySql)
}

/// On a server that pushes nothing: waiters poll.
fn looked_for(product: &'static dyn Product) -> Result<(), NotRun> {
    own(product)?;
    let rows = rows(&["quick", "--on", product.listing().name]);
    let mut expected = vec![("renewal", "alone")];
    expected.extend(["uncontended", "many-names"].map(|workload| (workload, "floor")));
    let ours =
        ["uncontended", "many-names", "one-name", "hand-over", "processes", "delay", "waiting", "renewal"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected);
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("hand-over" | "processes" | "waiting"));
        check(row["ratio"].is_number() == (row["subject"] == "ours" && !alone), row);
        let asked = row["subject"] == "ours" && !matches!(row["workload"].as_str(), Some("one-name"));
        check(row["reached"].is_boolean() == (asked && (!alone || row["workload"] == "waiting")), row);
    }
    // Each waiter polls: about four times a second by then, and never without a pause.
    let waiting = rows.iter().find(|row| row["workload"] == "waiting").and_then(|row| row["per_s"].as_f64());
    check(waiting.is_some_and(|rate| rate < 10.0), &Value::from(waiting));
    assert_in_time!((waiting >= Some(2.0)), late by Duration::from_secs(1), "looks per second: {waiting:?}");
    Ok(())
}

fn postgres() -> Result<(), NotRun> {
    own(&Postgres::Installed)?;
    let rows = rows(&["quick", "--on", "postgres"]);
    let mut expected =
        vec![("renewal", "alone"), ("commits", "never-notifies"), ("commits", "always-notifies")];
    expected.extend(["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")));
    let ours =
        ["uncontended", "many-names", "one-name", "hand-over", "processes", "waiting", "renewal", "commits"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected);
    Ok(())
}

fn mongodb() -> Result<(), NotRun> {
    pushing(&MongoDb, "mongodb")
}

fn etcd() -> Result<(), NotRun> {
    pushing(&Etcd, "etcd")
}

fn zookeeper() -> Result<(), NotRun> {
    pushing(&ZooKeeper, "zookeeper")
}

/// On a server that pushes releases, where the only subjects are the library and its floor.
fn pushing(product: &'static dyn Product, name: &str) -> Result<(), NotRun> {
    own(product)?;
    let rows = rows(&["quick", "--on", name]);
    let mut expected =
        ["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")).to_vec();
    let ours = ["uncontended", "many-names", "one-name", "hand-over", "processes", "waiting"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected);
    Ok(())
}

fn calibrate_redis() -> Result<(), NotRun> {
    calibrate(&Redis, 2, "redis-benchmark")
}

fn calibrate_postgres() -> Result<(), NotRun> {
    calibrate(&Postgres::Installed, 1, "pgbench")
}

/// Expects this many figures of the driver, and as many of the program.
fn calibrate(product: &'static dyn Product, figures: usize, program: &str) -> Result<(), NotRun> {
    let server = own(product)?;
    let rows = rows(&["calibrate", "--on", server.url()]);
    let drivers: Vec<&Value> = rows.iter().filter(|row| row["ratio"].is_number()).collect();
    if rows.len() == figures && drivers.is_empty() {
        return Err(format!("{program} is not on the PATH"));
    }
    check(rows.len() == 2 * figures && drivers.len() == figures, &Value::from(rows.clone()));
    Ok(())
}

fn hold() -> Result<(), NotRun> {
    let server = own_redis()?;
    for url in [server.url(), "memory://"] {
        let output = bench_hold(url).output().unwrap();
        let row = object(&output);
        let held = row["held"] == 300 && row["released"] == 300 && row["losses"] == 0;
        // A lock that the machine had no time to renew expires, at its release at the latest.
        assert_in_time!(held || row["losses"] != row["expired"], late by Duration::from_millis(400), "{row}");
        check(output.status.success() && held && row["left"] == 0, &row);
        // A lease of 600 ms is renewed five times a second.
        let renewed = row["renewals_per_s"].as_f64();
        check(renewed.is_some_and(|rate| rate < 3000.0), &row);
        assert_in_time!((renewed >= Some(900.0)), late by Duration::from_millis(400), "{row}");
    }
    Ok(())
}

fn loss() -> Result<(), NotRun> {
    let server = own_redis()?;
    let mut command = bench_hold(server.url());
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut connection = connection(&server);
    while ::redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap() < 600 {
        if running.try_wait().unwrap().is_some() {
            let ended = running.wait_with_output().unwrap();
            void(&format!("it ended before all locks were seen to be held: {}", text(&ended)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    ::redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    let output = running.wait_with_output().unwrap();
    let row = object(&output);
    assert_in_time!(row["losses"] == 300 && row["held"] == 0, late by Duration::from_millis(400), "the losses were not all noticed: {row}");
    check(!output.status.success(), &row);
    Ok(())
}

fn bench_hold(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.args(["hold", "--on", url, "--locks", "300", "--for", "2s", "--ttl", "600ms", "--json"]);
    command
}

fn absent_server() -> Result<(), NotRun> {
    // A port that the system never assigns by itself, and on which no Redis listens.
    let output = bench(&["quick", "--on", "redis://127.0.0.1:1"]);
    check(!output.status.success() && output.stdout.is_empty() && !output.stderr.is_empty(), &Value::Null);
    Ok(())
}

/// What a process does whose benchmark was killed while it waited for a lock.
fn orphan() -> Result<(), NotRun> {
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

/// Starts a server for this test alone.
fn own_redis() -> Result<Owned, NotRun> {
    own(&Redis)
}

fn own(product: &'static dyn Product) -> Result<Owned, NotRun> {
    Owned::start(product, &Settings::default()).map_err(|absence| match absence {
        Absence::NotRun(why) => why,
        Absence::Failure(why) => panic!("{why}"),
    })
}

fn connection(server: &Owned) -> ::redis::Connection {
    ::redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Runs each workload for a second, and returns what is printed: nothing but objects.
fn rows(args: &[&str]) -> Vec<Value> {
    rows_or(args, |errors| panic!("errors: {errors}"))
}

/// As `rows`, but calls `failed` with all that was printed if a row has errors.
fn rows_or(args: &[&str], failed: fn(&str) -> !) -> Vec<Value> {
    let output = bench(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    let printed = str::from_utf8(&output.stdout).unwrap();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The errors themselves are printed beside the rows. Loops that don't keep their pace on a busy machine count as
    // errors.
    let has_errors = |row: &Value| row["errors"].as_u64() > Some(0) && row["workload"] != "commits";
    if rows.iter().any(has_errors) {
        failed(&text(&output));
    }
    rows
}

/// Returns the only object that is printed, even if the program fails.
fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(output)))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.args(args).args(["--seconds", "1", "--json"]).output().unwrap()
}

/// Expects exactly these rows, each with figures.
fn expect(rows: &[Value], expected: &[(&str, &str)]) {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<(String, String)> =
        rows.iter().map(|row| (text(row, "workload"), text(row, "subject"))).collect();
    let expected: BTreeSet<(String, String)> =
        expected.iter().map(|(workload, subject)| ((*workload).to_owned(), (*subject).to_owned())).collect();
    assert_eq!(found, expected);
    for row in rows {
        check(row["errors"].is_number(), row);
        if row["workload"] == "waiting" {
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

fn check(good: bool, row: &Value) {
    assert!(good, "an unexpected row: {row}");
}
