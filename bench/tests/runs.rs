//! The program itself: that every workload runs, and that a program can read what it prints.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lock_conformance::servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Postgres, Product, Redis, Settings, ZooKeeper, record,
};
use serde_json::Value;

type Case = fn() -> Result<Completion, Failed>;

fn main() {
    let cases: [(&str, Case); 16] = [
        ("memory_has_neither_floor_nor_hand_over", memory),
        ("on_redis_every_workload_has_its_subjects_and_leaves_no_lock", redis),
        ("on_redlock_one_of_five_may_be_lost", redlock),
        ("no_argument_makes_a_resource_with_tokens_take_a_stale_write", argue),
        ("on_sqlite_there_is_a_floor_where_nobody_waits", sqlite),
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
        ("a_server_that_is_not_there_is_an_error", nobody),
    ];
    let trials = cases.map(|(name, case)| Trial::ignorable_test(name, case));
    let mut arguments = Arguments::from_args();
    // Each loads the machine by itself: more of them at once would measure each other.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials.into()).exit();
}

fn memory() -> Result<Completion, Failed> {
    let rows = rows(&["quick", "--on", "memory://"])?;
    expect(&rows, &[("uncontended", "ours"), ("many-names", "ours"), ("one-name", "ours")])?;
    for row in &rows {
        let has_ratio = row["workload"] == "one-name";
        check(row["backend"] == "memory" && row["ratio"].is_number() == has_ratio, row)?;
        check(row["token_price"].is_null(), row)?;
    }
    Ok(Completion::Completed)
}

fn sqlite() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("locks.db").display());
    let rows = rows(&["quick", "--on", &url])?;
    let with_floor = ["uncontended", "many-names"].map(|workload| [(workload, "ours"), (workload, "floor")]);
    let alone = ["one-name", "hand-over", "processes", "delay"].map(|workload| (workload, "ours"));
    expect(&rows, &[&with_floor.concat()[..], &alone].concat())?;
    for row in &rows {
        let compared = !matches!(row["workload"].as_str(), Some("hand-over" | "processes"));
        check(row["ratio"].is_number() == (compared && row["subject"] == "ours"), row)?;
    }
    Ok(Completion::Completed)
}

fn redis() -> Result<Completion, Failed> {
    let server = match own_redis() {
        Ok(server) => server,
        Err(absence) => return absent(absence),
    };
    let rows = rows(&["quick", "--on", server.url()])?;
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
    expect(&rows, &expected)?;
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("processes" | "waiting"));
        let has_ratio = row["subject"] != "floor" && !alone;
        check(row["ratio"].is_number() == has_ratio, row)?;
        let has_price = matches!(row["workload"].as_str(), Some("uncontended" | "many-names"));
        check(row["token_price"].is_number() == (has_price && row["subject"] != "no-token"), row)?;
    }
    let mut connection = ::redis::Client::open(server.url())?.get_connection()?;
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut connection)?;
    match keys.iter().find(|key| !key.ends_with(":lock~t")) {
        None => Ok(Completion::Completed),
        Some(left) => Err(format!("{left} was left on the server").into()),
    }
}

fn redlock() -> Result<Completion, Failed> {
    if let Err(absence) = own_redis() {
        return absent(absence);
    }
    let rows = rows(&["quick", "--on", "redlock"])?;
    let mut expected = vec![("one-lost", "one-dead"), ("one-lost", "one-silent")];
    for floor in ["floor", "one-round"] {
        expected.extend(["uncontended", "many-names"].map(|workload| (workload, floor)));
    }
    let ours = ["uncontended", "many-names", "one-name", "one-lost", "hand-over", "processes", "waiting"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected)?;
    let lost = |row: &&Value| row["workload"] == "one-lost" && row["subject"] != "ours";
    for row in rows.iter().filter(lost) {
        check(row["ratio"].is_number() && row["reached"].is_boolean(), row)?;
    }
    Ok(Completion::Completed)
}

fn argue() -> Result<Completion, Failed> {
    if let Err(absence) = own_redis() {
        return absent(absence);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_lock-bench")).args(["argue", "--rounds", "1"]).output()?;
    let printed = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{printed}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let ours: Vec<&str> = printed.lines().filter(|line| line.contains("| lock-redlock |")).collect();
    match ours.len() == 6 && ours.iter().all(|line| line.ends_with("| 0 |")) {
        true => Ok(Completion::Completed),
        false => Err(printed.into()),
    }
}

fn mariadb() -> Result<Completion, Failed> {
    looked_for(&MySql::MariaDb)
}

fn mysql() -> Result<Completion, Failed> {
    looked_for(&MySql::MySql)
}

/// On a server that pushes nothing.
fn looked_for(product: &'static dyn Product) -> Result<Completion, Failed> {
    if let Err(absence) = own(product) {
        return absent(absence);
    }
    let rows = rows(&["quick", "--on", product.listing().name])?;
    let mut expected = vec![("renewal", "alone")];
    expected.extend(["uncontended", "many-names"].map(|workload| (workload, "floor")));
    let ours =
        ["uncontended", "many-names", "one-name", "hand-over", "processes", "delay", "waiting", "renewal"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected)?;
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("hand-over" | "processes" | "waiting"));
        check(row["ratio"].is_number() == (row["subject"] == "ours" && !alone), row)?;
        let asked = row["subject"] == "ours" && !matches!(row["workload"].as_str(), Some("one-name"));
        check(row["reached"].is_boolean() == (asked && (!alone || row["workload"] == "waiting")), row)?;
    }
    // Whoever waits looks: about four times a second by then, and never without a pause.
    let waiting = rows.iter().find(|row| row["workload"] == "waiting").and_then(|row| row["per_s"].as_f64());
    check(waiting.is_some_and(|rate| (2.0..10.0).contains(&rate)), &Value::from(waiting))?;
    Ok(Completion::Completed)
}

fn postgres() -> Result<Completion, Failed> {
    if let Err(absence) = own(&Postgres::Installed) {
        return absent(absence);
    }
    let rows = rows(&["quick", "--on", "postgres"])?;
    let mut expected =
        vec![("renewal", "alone"), ("commits", "never-notifies"), ("commits", "always-notifies")];
    expected.extend(["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")));
    let ours =
        ["uncontended", "many-names", "one-name", "hand-over", "processes", "waiting", "renewal", "commits"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected)?;
    Ok(Completion::Completed)
}

fn mongodb() -> Result<Completion, Failed> {
    pushing(&MongoDb, "mongodb")
}

fn etcd() -> Result<Completion, Failed> {
    pushing(&Etcd, "etcd")
}

fn zookeeper() -> Result<Completion, Failed> {
    pushing(&ZooKeeper, "zookeeper")
}

/// A server that pushes releases, and for which there is nothing but the library and its floor.
fn pushing(product: &'static dyn Product, name: &str) -> Result<Completion, Failed> {
    if let Err(absence) = own(product) {
        return absent(absence);
    }
    let rows = rows(&["quick", "--on", name])?;
    let mut expected =
        ["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")).to_vec();
    let ours = ["uncontended", "many-names", "one-name", "hand-over", "processes", "waiting"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expect(&rows, &expected)?;
    Ok(Completion::Completed)
}

fn calibrate_redis() -> Result<Completion, Failed> {
    calibrate(&Redis, 2, "redis-benchmark")
}

fn calibrate_postgres() -> Result<Completion, Failed> {
    calibrate(&Postgres::Installed, 1, "pgbench")
}

/// So many figures of the driver, and as many of the program.
fn calibrate(product: &'static dyn Product, figures: usize, program: &str) -> Result<Completion, Failed> {
    let server = match own(product) {
        Ok(server) => server,
        Err(absence) => return absent(absence),
    };
    let rows = rows(&["calibrate", "--on", server.url()])?;
    let drivers: Vec<&Value> = rows.iter().filter(|row| row["ratio"].is_number()).collect();
    if rows.len() == figures && drivers.is_empty() {
        return Ok(Completion::ignored_with(format!("{program} is not on the PATH")));
    }
    check(rows.len() == 2 * figures && drivers.len() == figures, &Value::from(rows.clone()))?;
    Ok(Completion::Completed)
}

fn hold() -> Result<Completion, Failed> {
    let server = match own_redis() {
        Ok(server) => server,
        Err(absence) => return absent(absence),
    };
    for url in [server.url(), "memory://"] {
        let output = bench_hold(url).output()?;
        let row: Value = serde_json::from_slice(&output.stdout)?;
        let held = row["held"] == 300 && row["released"] == 300 && row["losses"] == 0 && row["left"] == 0;
        // A lease of 600 ms is renewed five times a second.
        let renewed = row["renewals_per_s"].as_f64().is_some_and(|rate| (900.0..3000.0).contains(&rate));
        check(output.status.success() && held && renewed, &row)?;
    }
    Ok(Completion::Completed)
}

fn loss() -> Result<Completion, Failed> {
    let server = match own_redis() {
        Ok(server) => server,
        Err(absence) => return absent(absence),
    };
    let running = bench_hold(server.url()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut connection = ::redis::Client::open(server.url())?.get_connection()?;
    while ::redis::cmd("DBSIZE").query::<u64>(&mut connection)? < 600 {
        std::thread::sleep(Duration::from_millis(1));
    }
    ::redis::cmd("FLUSHALL").exec(&mut connection)?;
    let output = running.wait_with_output()?;
    let row: Value = serde_json::from_slice(&output.stdout)?;
    check(!output.status.success() && row["losses"] == 300 && row["held"] == 0, &row)?;
    Ok(Completion::Completed)
}

fn bench_hold(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.args(["hold", "--on", url, "--locks", "300", "--for", "2s", "--ttl", "600ms", "--json"]);
    command
}

fn nobody() -> Result<Completion, Failed> {
    // A port that nothing but its own number is ever assigned to.
    let output = bench(&["quick", "--on", "redis://127.0.0.1:1"])?;
    check(!output.status.success() && output.stdout.is_empty() && !output.stderr.is_empty(), &Value::Null)?;
    Ok(Completion::Completed)
}

/// One that nobody else uses.
fn own_redis() -> Result<Owned, Absence> {
    own(&Redis)
}

fn own(product: &'static dyn Product) -> Result<Owned, Absence> {
    Owned::start(product, &Settings::default())
}

fn absent(absence: Absence) -> Result<Completion, Failed> {
    match absence {
        Absence::NotRun(why) => {
            record::not_run("lock-bench", &why);
            Ok(Completion::ignored_with(why))
        }
        Absence::Failure(why) => Err(why.into()),
    }
}

/// What a run of a second a workload prints, which is nothing but objects.
fn rows(args: &[&str]) -> Result<Vec<Value>, Failed> {
    let output = bench(args)?;
    if !output.status.success() {
        return Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let rows = str::from_utf8(&output.stdout)?.lines().map(serde_json::from_str);
    Ok(rows.collect::<Result<_, _>>()?)
}

fn bench(args: &[&str]) -> std::io::Result<std::process::Output> {
    Command::new(env!("CARGO_BIN_EXE_lock-bench")).args(args).args(["--seconds", "1", "--json"]).output()
}

/// These rows, each with figures and without errors.
fn expect(rows: &[Value], expected: &[(&str, &str)]) -> Result<(), Failed> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<(String, String)> =
        rows.iter().map(|row| (text(row, "workload"), text(row, "subject"))).collect();
    let expected: BTreeSet<(String, String)> =
        expected.iter().map(|(workload, subject)| ((*workload).to_owned(), (*subject).to_owned())).collect();
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?}").into());
    }
    for row in rows {
        // Loops that don't keep their pace on a busy machine are told as errors.
        check(row["errors"] == 0 || row["workload"] == "commits", row)?;
        if row["workload"] == "waiting" {
            // A count; where releases are pushed it may be nothing for a while.
            check(row["per_s"].as_f64().is_some_and(|rate| rate >= 0.0) && row["p50_us"].is_null(), row)?;
            continue;
        }
        // The rate counts what ends within its slice: on a busy machine that may be nothing.
        check(row["per_s"].as_f64().is_some_and(|rate| rate >= 0.0), row)?;
        for figure in ["p50_us", "p99_us", "max_us"] {
            check(row[figure].as_f64().is_some_and(|figure| figure > 0.0), row)?;
        }
    }
    Ok(())
}

fn check(good: bool, row: &Value) -> Result<(), Failed> {
    if good { Ok(()) } else { Err(format!("not as it should be: {row}").into()) }
}
