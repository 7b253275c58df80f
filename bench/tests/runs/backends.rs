//! `quick` on each backend: which subjects take part in which workload, and which figures they have.

use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_conformance::timing::too_late;
use lock_test_servers::{Etcd, MongoDb, MySql, Postgres, Product, ZooKeeper};
use serde_json::Value;

use super::NotRun;
use super::program::{check, connection, expect, first_lock, own, own_redis, rows, rows_or};

pub(super) fn memory() -> Result<(), NotRun> {
    let rows = rows(&["quick", "--on", "memory://"]);
    expect(
        &rows,
        &["uncontended", "many-names", "one-name", "held", "crowd"].map(|workload| (workload, "ours")),
    );
    for row in &rows {
        let has_ratio = row["workload"] == "one-name";
        check(row["backend"] == "memory" && row["ratio"].is_number() == has_ratio, row);
        check(row["token_price"].is_null(), row);
    }
    Ok(())
}

pub(super) fn sqlite() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("locks.db").display());
    let rows = rows(&["quick", "--on", &url]);
    let with_floor = ["uncontended", "many-names"].map(|workload| [(workload, "ours"), (workload, "floor")]);
    let alone = ["one-name", "hand-over", "processes", "delay", "held"].map(|workload| (workload, "ours"));
    expect(&rows, &[&with_floor.concat()[..], &alone, first_lock()].concat());
    for row in &rows {
        let compared = !matches!(row["workload"].as_str(), Some("hand-over" | "processes" | "held"));
        // On a busy machine, no cycle of the floor may end within its slice.
        let same = rows.iter().filter(|other| other["workload"] == row["workload"]);
        let idle = same.clone().any(|floor| floor["subject"] == "floor" && floor["per_s"] == 0.0);
        check(row["ratio"].is_number() == (compared && row["subject"] == "ours") || idle, row);
    }
    Ok(())
}

pub(super) fn redis() -> Result<(), NotRun> {
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
        ("held", &["ours"]),
        ("crowd", &["ours"]),
    ] {
        expected.extend(subjects.iter().map(|subject| (workload, *subject)));
    }
    expected.extend(first_lock());
    expect(&rows, &expected);
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("processes" | "waiting" | "held" | "crowd"));
        let has_ratio = row["subject"] != "floor" && !alone;
        check(row["ratio"].is_number() == has_ratio, row);
        check(row["p99_ratio"].is_number() == (has_ratio && row["workload"] != "one-name"), row);
        let has_price = matches!(row["workload"].as_str(), Some("uncontended" | "many-names"));
        check(row["token_price"].is_number() == (has_price && row["subject"] != "no-token"), row);
    }
    let many_names =
        rows.iter().find(|row| row["workload"] == "many-names" && row["subject"] == "ours").unwrap();
    let judged = many_names["to_reach"].as_array().unwrap().iter().map(|verdict| verdict["figure"].as_str());
    assert_eq!(judged.flatten().collect::<Vec<_>>(), ["ratio", "p99_ratio", "token_price"]);
    let crowd = rows.iter().find(|row| row["workload"] == "crowd").unwrap();
    check(!cfg!(target_os = "linux") || crowd["figures"]["bytes_per_task"].as_f64() > Some(0.0), crowd);
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut connection(&server)).unwrap();
    let left = keys.iter().find(|key| !key.ends_with(":lock~t"));
    assert!(left.is_none(), "{left:?} was left on the server");
    Ok(())
}

pub(super) fn redlock() -> Result<(), NotRun> {
    own_redis()?;
    // A node that takes longer than this has not answered. Without the answers of a majority, a release can't tell that
    // the lock was held until then (docs/protocols/redlock.md).
    const NODE_PATIENCE: Duration = Duration::from_millis(50);
    let rows = rows_or(&["quick", "--on", "redlock"], |errors| too_late(NODE_PATIENCE, errors));
    let mut expected = vec![("one-lost", "one-dead"), ("one-lost", "one-silent")];
    for floor in ["floor", "one-round"] {
        expected.extend(["uncontended", "many-names"].map(|workload| (workload, floor)));
    }
    let ours =
        ["uncontended", "many-names", "one-name", "one-lost", "hand-over", "processes", "waiting", "held"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expected.extend(first_lock());
    expect(&rows, &expected);
    let lost = |row: &&Value| row["workload"] == "one-lost" && row["subject"] != "ours";
    for row in rows.iter().filter(lost) {
        check(row["ratio"].is_number() && row["reached"].is_boolean(), row);
    }
    Ok(())
}

pub(super) fn mariadb() -> Result<(), NotRun> {
    looked_for(&MySql::MariaDb)
}

pub(super) fn mysql() -> Result<(), NotRun> {
    looked_for(&MySql::MySql)
}

/// On a server that pushes nothing: waiters poll.
pub(super) fn looked_for(product: &'static dyn Product) -> Result<(), NotRun> {
    own(product)?;
    let rows = rows(&["quick", "--on", product.listing().name]);
    let mut expected = vec![("renewal", "alone")];
    expected.extend(["uncontended", "many-names"].map(|workload| (workload, "floor")));
    let ours = [
        "uncontended",
        "many-names",
        "one-name",
        "hand-over",
        "processes",
        "delay",
        "waiting",
        "renewal",
        "held",
    ];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expected.extend(first_lock());
    expect(&rows, &expected);
    for row in &rows {
        let alone = matches!(row["workload"].as_str(), Some("hand-over" | "processes" | "waiting" | "held"));
        check(row["ratio"].is_number() == (row["subject"] == "ours" && !alone), row);
        let judged =
            row["subject"] == "ours" && row["workload"] != "hand-over" && row["workload"] != "processes";
        check(row["reached"].is_boolean() == judged || row["workload"] == "held", row);
    }
    // Each waiter polls: about four times a second by then, and never without a pause.
    let waiting = rows.iter().find(|row| row["workload"] == "waiting").and_then(|row| row["per_s"].as_f64());
    check(waiting.is_some_and(|rate| rate < 10.0), &Value::from(waiting));
    assert_in_time!((waiting >= Some(2.0)), late by Duration::from_secs(1), "looks per second: {waiting:?}");
    Ok(())
}

pub(super) fn postgres() -> Result<(), NotRun> {
    own(&Postgres::Installed)?;
    let rows = rows(&["quick", "--on", "postgres"]);
    let mut expected =
        vec![("renewal", "alone"), ("commits", "never-notifies"), ("commits", "always-notifies")];
    expected.extend(["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")));
    let ours = [
        "uncontended",
        "many-names",
        "one-name",
        "hand-over",
        "processes",
        "waiting",
        "renewal",
        "commits",
        "held",
    ];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expected.extend(first_lock());
    expect(&rows, &expected);
    Ok(())
}

pub(super) fn mongodb() -> Result<(), NotRun> {
    pushing(&MongoDb, "mongodb")
}

pub(super) fn etcd() -> Result<(), NotRun> {
    pushing(&Etcd, "etcd")
}

pub(super) fn zookeeper() -> Result<(), NotRun> {
    pushing(&ZooKeeper, "zookeeper")
}

/// On a server that pushes releases, where the only subjects are the library and its floor.
pub(super) fn pushing(product: &'static dyn Product, name: &str) -> Result<(), NotRun> {
    own(product)?;
    let rows = rows(&["quick", "--on", name]);
    let mut expected =
        ["uncontended", "many-names", "hand-over"].map(|workload| (workload, "floor")).to_vec();
    let ours = ["uncontended", "many-names", "one-name", "hand-over", "processes", "waiting", "held"];
    expected.extend(ours.map(|workload| (workload, "ours")));
    expected.extend(first_lock());
    expect(&rows, &expected);
    Ok(())
}
