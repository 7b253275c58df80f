//! Many locks that are held: by `hold`, and by the workload `held`.

use std::process::{Command, Stdio};
use std::time::Duration;

use lock_conformance::assert_in_time;
use lock_conformance::timing::void;
use serde_json::Value;

use super::NotRun;
use super::program::{bench, check, connection, lines, object, own_redis, text};

pub(super) fn hold() -> Result<(), NotRun> {
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

pub(super) fn loss() -> Result<(), NotRun> {
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

pub(super) fn bench_hold(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-bench"));
    command.args(["hold", "--on", url, "--locks", "300", "--for", "2s", "--ttl", "600ms", "--json"]);
    command
}

pub(super) fn held() -> Result<(), NotRun> {
    own_redis()?;
    let output = bench(&["quick", "--on", "redis", "--workload", "held"]);
    let rows: Vec<Value> = lines(&output).into_iter().filter(|line| line["subject"].is_string()).collect();
    let [row] = &rows[..] else { panic!("{}", text(&output)) };
    check(row["parameters"]["locks"] == 200, row);
    let figures = &row["figures"];
    // There is no time for the default ttl, and so no verdict on the share of a core.
    check(figures["ttl_ms"] == 3_000.0, row);
    let judged = row["to_reach"].as_array().map_or(0, Vec::len);
    check(judged <= 1, row);
    if cfg!(target_os = "linux") {
        let all = ["core_share", "bytes_per_lock", "server_cpu_s_per_10000"];
        check(all.iter().all(|figure| figures[figure].is_number()) && judged == 1, row);
    }
    // Each is renewed about once in a second, with what a busy machine adds or takes away.
    check(row["per_s"].as_f64().is_some_and(|rate| rate < 600.0), row);
    assert_in_time!((row["per_s"].as_f64() >= Some(150.0)), late by Duration::from_millis(300), "{row}");
    Ok(())
}
